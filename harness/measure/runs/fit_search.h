#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/measure/runs/training_run.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// A configuration that trains as another one does, with less memory, and what a step of it takes
/// where nothing limits it.
struct LeanerRun {
  RunConfig config;
  std::string changes;  ///< "recompute full, offload_optimizer"; empty: the configuration itself
  double seconds = 0;
  int64_t peak = 0, host = 0;  ///< bytes of a rank on the fullest stage
  bool fits = false;
};

/// Result of a search for changes that make a configuration fit.
struct FitSearch {
  std::vector<LeanerRun> fitting;  ///< the fastest first, at most three
  LeanerRun closest;               ///< of all that were executed, the one that misses least
  int64_t executed = 0;
};

/// Changes that leave what is trained as it is: smaller microbatches of the same batch, 1F1B in the
/// place of GPipe, sequence parallelism within the tensor-parallel group, more that replicas
/// divide, recomputation, mini-sequences, offload of activations and optimizer, and where nothing
/// is clipped, steps in backward. Executes sets of them on `target`, which is virtual, as if that
/// had no limit of memory, those first that should cost least time, and keeps what fits in
/// `needed`'s capacities. A set that is a part of one that does not fit is not tried, nor is one
/// that has more than a set that fits; then those near the fastest. Of the layers as few are
/// recomputed and offloaded as fit. `tried` is told how many were executed.
FitSearch search_fit(const TrainingRun& run, const Target& target, const Needed& needed,
                     const std::function<void(int64_t)>& tried);

}  // namespace frugal::harness
