#pragma once
#include "engine/optimizer/train_config.h"
#include "engine/train/distributed_model.h"
#include "engine/train/step_work.h"

namespace frugal::engine {

/// Result of a step. Loss and norm are NaN where they would mean nothing: on a virtual device, and
/// where ranks are absent (Cluster::whole).
struct StepResult {
  double loss = 0;           ///< mean over the batch's counted labels, nats
  double gradient_norm = 0;  ///< before clipping; also NaN where Optimizer::step() has none
  double seconds = 0;        ///< until the last rank ended
  double flops = 0;          ///< of the matrix multiplications executed by all ranks
};

/// Time of a step of one rank: a mean, where several were one run.
struct RankTime {
  int stage = 0;
  double seconds = 0;  ///< from the step's beginning to its own end of it
  double waited = 0;   ///< part of these seconds spent waiting for others
};

/// Trains a model on a cluster: each rank executes its stage's part of the run's schedule. Without
/// a pipeline that is one microbatch after another, forward and backward, and then the optimizer.
class Trainer : public DistributedModel {
 public:
  Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train);

  /// Computes a batch's gradients and drops them: what the first step would otherwise pay for once
  /// (caches, pages, kernels made for these shapes) is there afterwards. No weight changes, and no
  /// more memory is used than the run's schedule uses.
  void warm_up(const Batch& batch);
  /// Trains on the next batches, one behind the other: a schedule without a flush fills and drains
  /// its pipeline once for all of them. Throws WrongNumbers when a loss or a gradient's norm means
  /// something and is not finite.
  std::vector<StepResult> run(const std::vector<Batch>& batches) {
    return run(batches, schedule(static_cast<int>(batches.size())));
  }
  /// Trains by the caller's schedule of these batches (engine/schedule/check.h): one that is wrong
  /// computes something else, or ends when the deadline of the ranks' waiting passes. Throws
  /// InputError for split backward passes where weights step in backward.
  std::vector<StepResult> run(const std::vector<Batch>& batches, const Schedule& plan);
  StepResult step(const Batch& batch) { return run({batch}).front(); }

  /// Has run() keep its timeline, for which real devices wait after each action.
  void keep_timeline(bool on) { keep_timeline_ = on; }
  /// Actions of the stages of the first replica in the last run(), in seconds from its beginning.
  const Timeline& timeline() const { return timeline_; }
  /// Notes on a stage beside its timeline.
  struct StageNotes {
    double start = 0;                    ///< of the timeline, on its device's clock
    std::vector<VersionCount> versions;  ///< on its device's clock
  };
  const std::vector<StageNotes>& notes() const { return notes_; }
  /// Work of a step of the last run(): that of the first rank of the stage that moves most bytes.
  /// Every process calls it.
  StepWork work() const;
  /// Times of a step of the last run(), in the order of ranks; empty where ranks do not note them
  /// (Cluster::notes_waiting).
  const std::vector<RankTime>& rank_times() const { return rank_times_; }

 private:
  /// Work of a rank when a run began.
  struct WorkSoFar {
    DeviceWork done;
    int64_t kept = 0;
  };
  /// A rank's part of a step of a run.
  struct RankStep {
    StepResult result;
    int stage = 0;
    double waited = 0;  ///< in all of the run
  };

  /// Schedule of some batches from the next one on, as the run is configured.
  Schedule schedule(int batches) const;
  /// Keeps the rank's mean work in so many batches since then, if no other's here is more.
  void note_work(const Rank& rank, const WorkSoFar& before, size_t batches);
  void note_times(const std::vector<RankStep>& of_ranks, size_t steps);
  /// Throws WrongNumbers for a loss of the last stage that is not finite.
  void check_losses(const Rank& rank, const std::vector<double>& losses) const;

  TrainConfig train_;
  bool keep_timeline_ = false;
  Timeline timeline_;
  std::vector<StageNotes> notes_;
  StepWork work_;
  std::vector<RankTime> rank_times_;
};

}  // namespace frugal::engine
