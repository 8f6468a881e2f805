#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/calibrate/calibration.h"

namespace frugal::harness {

/// An artifact on a machine: errors, and times, of which a change of the machine is seen.
struct ArtifactOnMachine {
  ErrorsOfCells errors;
  /// Seconds, by row and column, of the cells that are timed; of an artifact that has none, as
  /// where all is in percent, those of its cases.
  std::map<std::string, double> seconds;

  /// Mean of how much longer each takes than `before`, percent; none where they share no time.
  std::optional<double> longer_than(const ArtifactOnMachine& before) const;
};

/// A machine of which one number is larger or smaller.
struct Varied {
  double value = 0;
  std::string reason;                        ///< why there is no such machine; else empty
  std::vector<ArtifactOnMachine> artifacts;  ///< those of Sensitivity; none without such a machine
};

struct ParameterSensitivity {
  Machine::Parameter parameter;
  bool fitted = false;
  Varied less, more;  ///< by Sensitivity::part
};

struct Sensitivity {
  static constexpr double part = 0.1;

  std::vector<std::string> artifacts;        ///< by id: of the fit, then held out
  std::vector<std::string> untimed;          ///< those left out, whose cases take no time
  std::vector<ArtifactOnMachine> unchanged;  ///< with the file's values
  std::vector<ParameterSensitivity> parameters;

  /// The largest change of any artifact's time, percent.
  double effect(const ParameterSensitivity& of) const;
};

/// What becomes of times and errors where each of the file's numbers, fitted or not, is a tenth
/// larger or smaller; whole ones are rounded. Sorted by effect, largest first. Machines run side by
/// side, on as many `threads`. `done` is called after each, by one at a time.
Sensitivity sensitivity(const FittedMachine& fitted, int threads,
                        const std::function<void(const std::string&)>& done);

/// How many machines that are, the unchanged one included.
size_t machines_of_sensitivity(const FittedMachine& fitted);

}  // namespace frugal::harness
