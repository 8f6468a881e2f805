#pragma once
#include <optional>

#include "engine/plan/predict.h"

namespace frugal::engine {

/// What a configuration computes again.
struct Recomputation {
  Recompute kind = Recompute::none;
  LayerModules modules = RunConfig::cores;  ///< of Recompute::selective
};

/// What is to be planned: a model on so many devices of a machine, and which configurations are
/// considered.
struct PlanRequest {
  RunConfig run;  ///< model, type, attention and masks; the rest is searched
  Machine machine;
  int devices = 1;                ///< [N], all of which are used
  int64_t batch = 1;              ///< [B], sequences
  int64_t memory = 0;             ///< bytes of each device
  std::vector<int> tensor = {1};  ///< tensor-parallel sizes to consider
  std::vector<ScheduleKind> schedules = {ScheduleKind::two_buffered};
  std::vector<Recomputation> recompute = {{Recompute::none}, {Recompute::stage}};
  std::vector<Shard> shards = {Shard::none};
  /// Whether stages may also have as many layers each as makes them equally fast.
  bool balanced_stages = false;
  /// Where the schedule does not say how many chunks a stage has: at most so many.
  static constexpr int most_chunks = 8;

  /// Considers all schedules that flush, all that can be recomputed within a layer, all shards and
  /// balanced stages.
  void search_all();
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
  /// Others that a rule forbids (RunConfig::validate), and the first such rule.
  int64_t refused = 0;
  std::string first_rule;
};

/// Algorithm 1 of pipedream2bw2021: all (w, d, b, recomputation, g) with w · d · t = N and
/// b · w · d · g = B, where d divides the layers or stages may be balanced; besides, all schedules
/// with their chunks, and all that replicas may divide. Of several sets of modules to recompute
/// those are left out that take longer than another one and save nothing. Throws InputError where
/// the request is wrong; a plan in which nothing fits is none.
Plan search(const PlanRequest& request);

}  // namespace frugal::engine
