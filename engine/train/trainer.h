#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "engine/checkpoint/host_tensor.h"
#include "engine/checkpoint/training_state.h"
#include "engine/cluster.h"
#include "engine/optimizer/train_config.h"
#include "engine/train/stage_executor.h"
#include "engine/train/step_work.h"

namespace frugal::engine {

/// Loss and norm are NaN where they would mean nothing: on a virtual device, and where ranks are
/// absent (Cluster::whole).
struct StepResult {
  double loss = 0;           ///< mean over the batch's counted labels, nats
  double gradient_norm = 0;  ///< before clipping; also NaN where Optimizer::step() has none
  double seconds = 0;        ///< until the last rank ended
  double flops = 0;          ///< of the matrix multiplications executed by all ranks
};

/// What one rank took for a step: a mean, where several were one run.
struct RankTime {
  int stage = 0;
  double seconds = 0;  ///< from the step's beginning to its own end of it
  double waited = 0;   ///< of that, for others
};

/// Trains a GPT on a cluster: each rank executes its stage's part of the run's schedule. Without a
/// pipeline that is one microbatch after another, forward and backward, and then the optimizer.
class Trainer {
 public:
  Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train);

  /// Computes a batch's gradients and drops them: what the first step would otherwise pay for once
  /// (caches, pages, kernels made for these shapes) is there afterwards. No weight changes, and no
  /// more memory is used than the run's schedule uses.
  void warm_up(const Batch& batch);
  /// The next batches, one behind the other: a schedule without a flush fills and drains its
  /// pipeline once for all of them. Throws WrongNumbers when a loss or a gradient's norm means
  /// something and is not finite.
  std::vector<StepResult> run(const std::vector<Batch>& batches) {
    return run(batches, schedule(static_cast<int>(batches.size())));
  }
  /// By a schedule of these batches that is the caller's (engine/schedule/check.h): one that is
  /// wrong computes something else, or ends when the deadline of the ranks' waiting passes. Throws
  /// InputError for split backward passes where weights step in backward.
  std::vector<StepResult> run(const std::vector<Batch>& batches, const Schedule& plan);
  StepResult step(const Batch& batch) { return run({batch}).front(); }
  /// The mean loss of a batch in nats, under the newest weights and without dropout; nothing is
  /// changed. NaN where a step's loss is. Any number of microbatches.
  double evaluate(const Batch& batch);

  /// Logits of one microbatch under the newest weights and without dropout: [s · b, v], on the
  /// first process. Throws as snapshot() does.
  HostTensor logits(const MicroBatch& batch);
  /// Weights, tokens, labels, logits, loss and all gradients of one microbatch under the current
  /// weights, in their serial shapes, on the first process: "weight/NAME", "gradient/NAME",
  /// "tokens", "labels", "logits", "loss". The weights do not change. Throws std::logic_error on a
  /// virtual device and where ranks are absent.
  HostTensors snapshot(const MicroBatch& batch);
  /// Gives a weight by its name in its serial shape. Called by one rank at a time.
  using WeightSource = std::function<HostTensor(const std::string& name)>;
  /// Replaces all weights; throws InputError when one has another shape. Only before the first
  /// step.
  void load_weights(const WeightSource& weight);
  /// By the tensors "weight/NAME"; throws InputError when one is missing too.
  void load_weights(const HostTensors& tensors);
  using WeightSink = std::function<void(const std::string& name, const HostTensor& weight)>;
  /// Gives all weights in their serial shapes, one after the other; where ranks are processes, the
  /// values to the first alone. Throws as snapshot() does.
  void each_weight(const WeightSink& take);

  /// Where rank r of the run writes its state in a folder: "rank-0003.safetensors".
  static std::string state_file(int rank);
  /// Writes what a training needs to go on from here, each rank its part to a file of its own: the
  /// newest weights, those before them where the schedule computes with both, and the optimizer's
  /// state. Ranks whose part is another's too, a replica's, write none. Returns the files that
  /// ranks of this process have written. Between two runs; throws as snapshot() does, and
  /// InputError where a file cannot be written.
  std::vector<std::string> save_state(const std::string& folder);
  /// Goes on behind step `step` with what was written then, by ranks of any layout. Throws
  /// InputError where that is of another model, optimizer, or precision. Before the first step.
  void load_state(const StoredState& state, int64_t step);

  const RunConfig& run_config() const { return run_; }
  /// What the stages of the first replica did in the last run(), in seconds from its beginning,
  /// where it was asked for. Asking makes real devices wait after each action.
  void keep_timeline(bool on) { keep_timeline_ = on; }
  const Timeline& timeline() const { return timeline_; }
  /// What the timeline does not say of a stage.
  struct StageNotes {
    double start = 0;                    ///< of the timeline, on its device's clock
    std::vector<VersionCount> versions;  ///< on its device's clock
  };
  const std::vector<StageNotes>& notes() const { return notes_; }
  /// Work of a step of the last run(): that of the first rank of the stage that moves most bytes.
  /// Every process asks.
  StepWork work() const;
  /// Times of a step of the last run(), in the order of ranks; empty where ranks do not note them
  /// (Cluster::notes_waiting).
  const std::vector<RankTime>& rank_times() const { return rank_times_; }
  /// Blocks of weights that each local rank has.
  std::vector<size_t> weight_blocks() const;

 private:
  struct Member {
    std::unique_ptr<StageModel> model;
    std::unique_ptr<WeightVersions> weights;
    std::unique_ptr<Optimizer> optimizer;
  };
  Member& of(const Rank& rank) { return members_[static_cast<size_t>(rank.index)]; }
  StageExecutor executor(Rank& rank);
  /// Of the newest weights, without state of steps before.
  void make_optimizer(Rank& rank);
  struct WorkSoFar {
    DeviceWork done;
    int64_t kept = 0;
  };
  /// What the rank has done since then in so many batches, if no other's here is more.
  void note_work(const Rank& rank, const WorkSoFar& before, size_t batches);
  /// Writes the rank's part of the first microbatch's logits, if it has one.
  static OnLogits collect_logits(const Rank& rank, HostTensor& all, std::mutex& guard);
  void check_values() const;
  /// All of a rank that save_state() writes.
  std::vector<StateTensor> state_of(Rank& rank);
  /// Throws WrongNumbers for the last stage's that is not finite.
  void check_losses(const Rank& rank, const std::vector<double>& losses) const;
  struct WeightName {
    std::string name;
    Shape shape;  ///< of the serial weight
  };
  std::vector<WeightName> weight_names() const;
  /// What a rank has of a step of a run.
  struct RankStep {
    StepResult result;
    int stage = 0;
    double waited = 0;  ///< in all of the run
  };
  void note_times(const std::vector<RankStep>& of_ranks, size_t steps);
  /// Schedule of some batches from the next one on, as the run is configured.
  Schedule schedule(int batches) const;

  Cluster& cluster_;
  RunConfig run_;
  TrainConfig train_;
  std::vector<Member> members_;
  bool keep_timeline_ = false;
  Timeline timeline_;
  std::vector<StageNotes> notes_;
  StepWork work_;
  std::vector<RankTime> rank_times_;
  int steps_ = 0;
};

}  // namespace frugal::engine
