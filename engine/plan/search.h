#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/predict.h"
#include "engine/plan/request.h"

namespace frugal::engine {

struct Candidate {
  RunConfig run;
  Prediction prediction;
  int64_t missing = 0;  ///< bytes by which its fullest stage does not fit; 0: it fits
  size_t turn = 0;      ///< in which the search found it; decides among equals
};

struct Plan {
  /// Configurations by predicted throughput, the best first: those that fit, and those that do not.
  std::vector<Candidate> fitting, too_large;
  /// Configurations that are slower (PlanRequest::within), whether they fit or not; and of a brief
  /// search those that do not nearly fit.
  int64_t slower = 0, hopeless = 0;
  /// Configurations whose microbatches are not a multiple of the depth, and so never m = d · g.
  int64_t not_filling = 0;
  /// Others that a rule forbids (RunConfig::validate), and the first such rule.
  int64_t refused = 0;
  std::string first_rule;

  /// Configurations that were compared.
  size_t compared() const {
    return fitting.size() + too_large.size() + static_cast<size_t>(slower + hopeless);
  }
};

/// Hears how many of all ways to order passes have had their turn.
using SearchProgress = std::function<void(size_t done, size_t all)>;

/// Algorithm 1 of pipedream2bw2021: all (w, d, b, recomputation, g) with w · d · t · c = N and
/// b · w · d · g = B, where d divides the layers or stages may be balanced; besides, all schedules
/// with their chunks, and all that replicas may divide. Of several sets of modules to recompute
/// those are left out that take longer than another one and save nothing. Throws InputError where
/// the request is wrong; a plan in which nothing fits is none.
Plan search(const PlanRequest& request, const SearchProgress& progress = {});

}  // namespace frugal::engine
