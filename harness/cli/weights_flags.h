#pragma once
#include <string>

#include "harness/cli/files.h"
#include "harness/cli/flags.h"
#include "harness/training.h"

namespace frugal {

/// The flags about values of a model in files.
struct WeightsFlags {
  std::string load, save, save_tensors;

  void add_to(Flags& flags);
  /// Whether a file is to be written.
  bool saves() const { return !save.empty() || !save_tensors.empty(); }
  /// What is to be written.
  std::vector<FlagFile> outputs() const {
    return {{"--save-weights", save}, {"--save-tensors", save_tensors}};
  }
  /// Throws InputError where there are no values that mean anything, for a file of weights that is
  /// not the model's, and for one that cannot be written.
  void put_into(TrainingRun& run, const Target& target) const;
  /// The flags that decide what a run computes, each with a space before it.
  std::string text() const;
};

}  // namespace frugal
