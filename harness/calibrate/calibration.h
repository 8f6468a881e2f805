#pragma once
#include <functional>
#include <string>
#include <vector>

#include "harness/calibrate/fit.h"
#include "harness/calibrate/machine_runs.h"

/// How good a virtual machine's fitted parameters are (docs/calibration.md). All of this runs
/// artifacts on the machine, in memory, and throws InputError for a machine without "fit", for a
/// fit that names what is not there, and Interrupted.
namespace frugal::harness {

/// A machine's file, what it says was fitted, and the artifacts that this names.
class FittedMachine {
 public:
  /// `hardware` as find_machine() takes it; `all` artifacts there are, which must outlive this.
  FittedMachine(std::string hardware, const std::vector<const Artifact*>& all);

  const MachineWithFit& machine() const { return machine_; }
  /// The file's with other values of some parameters.
  Machine with(std::map<std::string, double> values) const {
    values.insert(values_.begin(), values_.end());
    return find_machine(hardware_, values);
  }
  /// The same, as if its file had other values of some parameters, which are not fitted then.
  FittedMachine as_if(const std::map<std::string, double>& values) const;
  /// Artifacts that Fit::to names, each once, in its order, and those held out.
  const std::vector<const Artifact*>& fitted_to() const { return fitted_to_; }
  const std::vector<const Artifact*>& held_out() const { return held_out_; }
  /// Whether a cell is one of those that parameters are fitted to: it is named, and a time or a
  /// throughput; percentages follow from these.
  bool is_fitted_to(const Cell& cell) const;

 private:
  std::string hardware_;
  std::map<std::string, double> values_;  ///< that its file does not have
  MachineWithFit machine_;
  std::vector<const Artifact*> fitted_to_, held_out_;
};

/// A parameter that was fitted, and what fitting it again gives.
struct FittedParameter {
  std::string key, unit;
  double file = 0, refitted = 0;
  double flat = 0;  ///< how far it can be moved (LeastSquares::flat)

  /// Whether they are further apart than 1 % and than the flatness explains.
  bool differs() const;
};

struct Refit {
  struct FittedCell {
    Cell file, refitted;  ///< with the file's values, and with those that were found
  };
  std::vector<FittedParameter> parameters;
  std::vector<FittedCell> cells;
  double rms_file = 0, rms_refitted = 0;  ///< of the cells' errors, percent

  bool differs() const;
};

/// Fits the machine's parameters again, beginning with the file's values, to three significant
/// digits: so that the sum of the squares of the cells' relative errors is smallest.
Refit refit(const FittedMachine& fitted);

struct HeldOut {
  struct HeldOutCell {
    Cell cell;
    /// Whether it is made of a run of which a fitted cell is made too: then it is no test of the
    /// fit, though the paper has it in another place.
    bool seen = false;
  };
  std::string artifact;
  std::vector<HeldOutCell> cells;
  ErrorsOfCells all, unseen;
};

/// What the file's values give for the artifacts held out; `done` is called after each.
std::vector<HeldOut> held_out_errors(const FittedMachine& fitted,
                                     const std::function<void(const std::string&)>& done);

/// What is fitted to although it is held out, a sentence each: none where all is right.
std::vector<std::string> split_violations(const Fit& fit);
/// The same of what was run: an artifact held out of which all that there is was seen.
std::vector<std::string> split_violations(const std::vector<HeldOut>& held_out);

}  // namespace frugal::harness
