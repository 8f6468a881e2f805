#pragma once
#include <string>

#include "harness/cli/files.h"
#include "harness/cli/flags.h"
#include "harness/measure/runs/training_run.h"

namespace frugal::harness {

class Target;

/// The flags about values of a model that are written to files.
struct WeightsFlags {
  std::string save, save_tensors;

  void add_to(Flags& flags);
  /// Whether a file is to be written.
  bool saves() const { return !save.empty() || !save_tensors.empty(); }
  /// What is to be written.
  std::vector<FlagFile> outputs() const {
    return {{"--save-weights", save}, {"--save-tensors", save_tensors}};
  }
  /// Throws InputError where there are no values that mean anything, and for a file that cannot be
  /// written.
  void put_into(TrainingRun& run, const Target& target) const;
};

/// Throws InputError where ranks have no values that mean anything; `flag` asks for them.
void check_values(const std::string& flag, const Target& target);

/// Has the run begin with the weights of --load-weights. Throws InputError where there are no
/// values that mean anything, and for a file that is not the model's.
void load_weights(const std::string& path, TrainingRun& run, const Target& target);

}  // namespace frugal::harness
