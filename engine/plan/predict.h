#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/links.h"
#include "engine/plan/part_cost.h"

namespace frugal::engine {

/// Predicted costs of one stage of a configuration, per batch where nothing else is said.
struct StagePrediction {
  double compute = 0;     ///< seconds of its passes of one microbatch
  double messages = 0;    ///< seconds of one microbatch's messages that it waits for
  double all_reduce = 0;  ///< seconds, over the replicas
  double update = 0;      ///< seconds of the optimizer's own work
  int64_t memory = 0;     ///< peak, bytes
  int64_t on_host = 0;    ///< the same of what is offloaded
};

/// Cause that decides how long a batch takes.
enum class Bound : uint8_t { compute, messages, all_reduce, update, bubble };
inline constexpr int bounds = 5;
constexpr Names names_of(Bound) {
  return {"compute", "messages", "all-reduce", "optimizer", "bubble"};
}

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

/// Predicts the seconds of a batch of `run` on the machine, and the memory of each stage, from
/// costs of the parts of this model, microbatch, recomputation and tensor-parallel size: its passes
/// are put one after the other as the schedule has them (PipelineClock). docs/planner.md. Throws
/// InputError where stages exchange messages and would wait for each other, and where the host has
/// too little memory for what is offloaded.
Prediction predict(const RunConfig& run, const PartCosts& costs, const Links& links,
                   const Machine& machine);
/// Predicts alike; none, without playing a batch, where what one stage computes takes longer than
/// `seconds`.
std::optional<Prediction> predict_within(double seconds, const RunConfig& run,
                                         const PartCosts& costs, const Links& links,
                                         const Machine& machine);
/// Prediction::memory() alone, whatever the host has memory for.
int64_t predict_memory(const RunConfig& run, const PartCosts& costs, const Links& links,
                       const Machine& machine);

/// Bytes that the ranks of a node have offloaded together at most, on the node where that is most.
int64_t host_memory_of_node(const RunConfig& run, const Prediction& prediction,
                            int64_t devices_per_node);

/// Reason why there is no prediction of a run's schedule; empty where there is one.
std::string why_not_predicted(const RunConfig& run);

}  // namespace frugal::engine
