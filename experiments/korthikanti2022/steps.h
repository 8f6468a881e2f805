#pragma once
#include "experiments/korthikanti2022/layers.h"
#include "harness/place/target.h"

namespace frugal::experiments::korthikanti2022 {

/// A model with its pipeline as the paper runs it: interleaved where table 3 says so.
///
/// It has as many microbatches of the global batch as its memory needs to reach its peak, which is
/// fewer than all: after 2p every stage has had as many in flight as it ever has.
RunConfig step_config(const Model& model, const Technique& technique);

/// A whole training iteration as the paper runs it.
struct Iteration {
  std::string_view model;
  Technique technique;
  int64_t replicas = 1;  ///< of the paper's GPUs, each with a global batch of its own
  int64_t kept = 0;      ///< microbatches in flight of which nothing is computed again (appendix C)
};

/// Within its artifact: "530B/full/x8".
std::string case_id(const Iteration& iteration);
/// All microbatches of its global batch and the optimizer, on the paper's machine, virtually, at
/// full size; nothing on other devices.
Cases iteration_cases(std::vector<Iteration> iterations);

/// Readings of an iteration's record.
double seconds(const Record& record);
double mfu(const Record& record);  ///< percent; model FLOPs are equation 7's
double hfu(const Record& record);  ///< percent; hardware FLOPs are equation 8's
/// Tolerance of cells with either: 1.5 points at most.
std::optional<policy::Tolerance> utilization_tolerance(const Cell& cell);

}  // namespace frugal::experiments::korthikanti2022
