#pragma once
#include <optional>

#include "engine/plan/predict.h"

namespace frugal::engine {

/// What is to be planned: a model on so many devices of a machine, and which configurations are
/// considered.
struct PlanRequest {
  RunConfig run;  ///< model, schedule, type, attention and masks; the rest is searched
  Machine machine;
  int devices = 1;                ///< [N], all of which are used
  int64_t batch = 1;              ///< [B], sequences
  int64_t memory = 0;             ///< bytes of each device
  std::vector<int> tensor = {1};  ///< tensor-parallel sizes to consider
  std::vector<Recompute> recompute = {Recompute::none, Recompute::stage};

  /// Throws InputError that names the flag, the value, and what is allowed.
  void validate() const;
};

struct Candidate {
  RunConfig run;
  Prediction prediction;
  int64_t missing = 0;  ///< bytes by which its fullest stage does not fit; 0: it fits

  bool fits() const { return missing == 0; }
};

struct Plan {
  /// By predicted throughput, the best first: those that fit, and those that do not.
  std::vector<Candidate> fitting, too_large;
  /// Configurations whose microbatches are not a multiple of the depth, and so never m = d · g.
  int64_t not_filling = 0;
};

/// Algorithm 1 of pipedream2bw2021: all (w, d, b, recomputation, g) with w · d · t = N and
/// b · w · d · g = B, where d divides the layers. Throws InputError where the request is wrong;
/// a plan in which nothing fits is none.
Plan search(const PlanRequest& request);

}  // namespace frugal::engine
