#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/calibrate/calibration.h"

namespace frugal::harness {

/// A machine with other published values (Machine::Other) than its file's, fitted again.
struct PublishedMachine {
  /// Errors of what is held out.
  struct HeldOutErrors {
    std::string artifact;
    ErrorsOfCells errors;
    double longer = 0;  ///< mean of how much longer its times are than the paper's, percent
  };
  std::map<std::string, double> values;  ///< those that its file does not have
  std::string source;                    ///< of the value, where it is one
  std::map<std::string, double> fitted;  ///< what fitting gives then
  double rms = 0;                        ///< of the fitted cells' errors, percent
  std::vector<HeldOutErrors> held_out;   ///< those that have times, in the file's order
};

/// How far what is published of a machine decides what is held out.
struct Published {
  PublishedMachine file;                 ///< with the file's values
  std::vector<PublishedMachine> others;  ///< one value of another source each
  /// Of all numbers those values, each taken alone, with which the first artifact held out takes
  /// least, and most.
  PublishedMachine shortest, longest;
};

/// `done` is called after each machine.
Published published(const FittedMachine& fitted,
                    const std::function<void(const std::string&)>& done);

/// How many machines that are.
size_t machines_of_published(const FittedMachine& fitted);

}  // namespace frugal::harness
