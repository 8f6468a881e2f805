#pragma once
#include "engine/optimizer/train_config.h"
#include "engine/plan/search.h"
#include "kernels/virtual/machine.h"

namespace frugal::engine {

/// A configuration as the virtual machine executes it, all of its stages together.
struct Execution {
  static constexpr int batches = 4;  ///< that are trained in one go
  double seconds = 0;  ///< of a batch, with neither the pipeline's first fill nor its last drain
                       ///< where the schedule has no flush
  std::vector<int64_t> memory;   ///< peak of each stage, bytes
  std::vector<int64_t> on_host;  ///< the same of what is offloaded
};

/// Trains a few batches on make_virtual_cluster(), on devices and hosts that have as much memory as
/// it takes.
Execution execute_plan(const RunConfig& run, const OptimizerOptions& optimizer,
                       const Machine& machine);

/// Executes the first `count` of a plan's configurations that fit, and puts them in the order of
/// what they took: predictions are not exact, and the first ones are often alike. Returns that of
/// each.
std::vector<Execution> settle(Plan& plan, const Machine& machine, size_t count);

}  // namespace frugal::engine
