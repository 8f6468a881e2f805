#pragma once
#include <vector>

#include "engine/config.h"
#include "engine/optimizer/train_config.h"
#include "harness/namespace.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

/// A way to recompute, and what a step takes with it on a virtual machine without a limit of
/// memory.
struct RecomputeWay {
  RunConfig run;
  int64_t layers = 0;  ///< of each stage or chunk, of which something is recomputed
  double seconds = 0;  ///< of a step
  int64_t peak = 0;    ///< bytes, of the fullest stage
  int64_t host = 0;    ///< the same of the host's memory
};

/// Number of layers of the largest stage or chunk.
int64_t most_layers_of(const RunConfig& run);

/// Nothing; and of the first 1, 2, … layers of each stage every set of modules, or all. Sets that
/// discard the same are there once.
std::vector<RecomputeWay> ways_to_recompute(RunConfig run);

/// Executes each of them (engine/plan/execute.h), as many at once as there are processors.
std::vector<RecomputeWay> executed_ways(const RunConfig& run, const OptimizerOptions& optimizer,
                                        const Machine& machine);

/// Ways among these that no other beats in both time and memory, the most memory first.
std::vector<RecomputeWay> frontier_of(std::vector<RecomputeWay> ways);

/// The fastest that takes no more bytes than this; null: none does.
const RecomputeWay* fastest_within(const std::vector<RecomputeWay>& ways, int64_t memory);

}  // namespace frugal::harness
