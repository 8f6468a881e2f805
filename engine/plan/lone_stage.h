#pragma once
#include <string>
#include <vector>

#include "engine/plan/predict.h"
#include "engine/train/trainer.h"

namespace frugal::engine {

/// Seconds of one rank of a stage in a batch, while the other stages are absent
/// (make_lone_*_cluster() of engine/cluster/cluster.h): what they would send is there at once, and
/// so the rank waits for none of them.
struct StageSeconds {
  /// Means of each chunk over a batch's microbatches; 0 of a kind of pass that is not made.
  std::vector<PassSeconds> chunks;
  double step = 0;
  /// Seconds for which the passes' and the step's collectives were charged (ModelledCommunicator),
  /// hidden or not: all of the batch's.
  double collectives = 0;
  double flops = 0;  ///< of the matrix multiplications that the rank executed in the batch
};

/// Reason why there is no time of a step from lone stages; empty where there is one.
std::string why_not_lone_stages(const RunConfig& run);

/// The first stage whose parts of the model are those of this one, so that its passes are too: as
/// many layers of the same kinds, with the same ends.
int stage_like(const RunConfig& run, int stage);
/// Stages that are the first of their kind, in ascending order.
std::vector<int> distinct_stages(const RunConfig& run);

/// Configuration of a rank of a lone stage: replicas that divide nothing are absent, because
/// what they sum is charged when the stages' times are put together.
RunConfig lone_stage_of(const RunConfig& run);

/// One rank of a stage that makes its part of a schedule's passes with its neighbours absent: in
/// their order, with as many microbatches in flight and versions of the weights, and so in as much
/// memory.
class LoneStage {
 public:
  /// The cluster is make_lone_*_cluster(lone_stage_of(run), ..., stage).
  LoneStage(Cluster& cluster, const RunConfig& run, const TrainConfig& train);

  /// Trains the next batches, one behind the other, of microbatches each as many as
  /// lone_stage_of(run) has; what the rank took for each.
  std::vector<StageSeconds> run(const std::vector<Batch>& batches);
  /// Does what only the first step would pay for.
  void warm_up(const Batch& batch) { trainer_.warm_up(batch); }

 private:
  double charged();

  Cluster& cluster_;
  Trainer trainer_;
  int64_t steps_ = 0;
};

/// Parts of a batch's seconds, along its slowest path.
struct StepParts {
  /// Passes of the stage that computes longest, and steps, without what collectives were charged
  /// for in them: measured where the stages are on a real device.
  double computation = 0;
  /// Charges of those collectives, as if nothing hid them; messages that stages wait for; sums over
  /// replicas that divide nothing, and of a tied table: modelled.
  double communication = 0;
  double bubble = 0;  ///< of the schedule: that stage's waiting for others' passes

  double seconds() const { return computation + communication + bubble; }
};

/// A batch of a run, put together from the times of its stages.
class StagesTogether {
 public:
  /// Messages and sums are charged to this machine.
  StagesTogether(const RunConfig& run, const OptimizerOptions& optimizer, const Machine& machine);
  StagesTogether(const StagesTogether&) = delete;
  StagesTogether& operator=(const StagesTogether&) = delete;

  /// Plays the run's schedule (PipelineClock) with the passes and steps of these stages, one for
  /// each of distinct_stages(), in their order. Throws std::invalid_argument where there are more
  /// or fewer.
  StepParts of(const std::vector<StageSeconds>& stages);
  /// FLOPs of a batch of all ranks.
  double flops(const std::vector<StageSeconds>& stages) const;

 private:
  const RunConfig run_;
  const std::vector<int> distinct_;
  const Machine machine_;
  const Links links_;
  PartCosts costs_;
};

}  // namespace frugal::engine
