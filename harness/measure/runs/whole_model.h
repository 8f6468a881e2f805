#pragma once
#include <memory>
#include <optional>

#include "engine/train/module_run.h"
#include "engine/train/trainer.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// A layer, forward and backward, or a training step, on any cluster: what is measured and what a
/// virtual machine predicts is the same.
class WholeModel {
 public:
  WholeModel(std::unique_ptr<Cluster> cluster, const RunConfig& config, bool layer);

  double seconds();

 private:
  std::unique_ptr<Cluster> cluster_;
  std::optional<ModuleRun> layer_;
  std::optional<Trainer> trainer_;
  Batch batch_;
};

}  // namespace frugal::harness
