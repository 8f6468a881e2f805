#pragma once
#include <array>
#include <vector>

#include "engine/comm/layout.h"
#include "engine/plan/part_cost.h"

namespace frugal::engine {

/// What one stage of a configuration is predicted to take, per batch where nothing else is said.
struct StagePrediction {
  double compute = 0;     ///< seconds of its passes of one microbatch
  double messages = 0;    ///< seconds of one microbatch's messages that it waits for
  double all_reduce = 0;  ///< seconds, over the replicas
  double update = 0;      ///< seconds of the optimizer's own work
  int64_t memory = 0;     ///< peak, bytes
};

/// What decides how long a batch takes.
enum class Bound : uint8_t { compute, messages, all_reduce, update, bubble };
inline constexpr int bounds = 5;
std::string_view name_of(Bound bound);

struct Prediction {
  double seconds = 0;  ///< of a batch
  std::vector<StagePrediction> stages;
  /// Seconds of a batch by what it is spent on, along its slowest path; they add up
  /// to `seconds`.
  std::array<double, bounds> parts{};

  double part(Bound bound) const { return parts[static_cast<size_t>(bound)]; }
  /// The stage with the highest peak.
  size_t fullest() const;
  int64_t memory() const { return stages[fullest()].memory; }
};

/// How the stages and replicas of a configuration lie on a machine's nodes. It depends on t, w and
/// d alone.
struct Links {
  Links(const RunConfig& run, const Machine& machine);

  std::vector<CostModel::Group> replicas;  ///< of each stage
  CostModel::Group ends;
  std::vector<int> senders;     ///< from each stage to the next (Layout::senders)
  std::vector<int> exchanging;  ///< the same of exchanges of both directions
};

/// How many seconds a batch of `run` takes on the machine, and how much memory on each stage:
/// pipedream2bw2021, appendix A, for costs of the parts of this model, microbatch, recomputation
/// and tensor-parallel size; the schedule is one that is predicted. Equations and where they differ
/// from the paper's: docs/planner.md.
Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine);

/// As the schedule asks: without clipping, which makes stages wait for each other, where it has no
/// flush.
OptimizerOptions planned_optimizer(const ScheduleKind& kind);

}  // namespace frugal::engine
