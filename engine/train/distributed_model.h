#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "engine/checkpoint/training_state.h"
#include "engine/cluster/cluster.h"
#include "engine/train/stage_executor.h"

namespace frugal::engine {

/// A model with its optimizer, divided among the ranks of a cluster: its weights, what it computes,
/// and the state of its training.
///
/// Functions that need values throw std::logic_error on a virtual device and where ranks are
/// absent.
class DistributedModel {
 public:
  DistributedModel(Cluster& cluster, const RunConfig& run, const OptimizerOptions& optimizer);

  const RunConfig& run_config() const { return run_; }

  /// Mean loss of a batch in nats, under the newest weights and without dropout; nothing changes.
  /// NaN where a step's loss is. Any number of microbatches.
  double evaluate(const Batch& batch);
  /// Logits of one microbatch under the newest weights and without dropout: [s · b, v], on the
  /// first process. Needs values.
  HostTensor logits(const MicroBatch& batch);
  /// Weights, tokens, labels, logits, loss and all gradients of one microbatch under the current
  /// weights, in their serial shapes, on the first process: "weight/NAME", "gradient/NAME",
  /// "tokens", "labels", "logits", "loss". The weights do not change. Needs values.
  HostTensors snapshot(const MicroBatch& batch);

  /// Gives a weight by its name in its serial shape. Called by one rank at a time.
  using WeightSource = std::function<HostTensor(const std::string& name)>;
  /// Replaces all weights; throws InputError when one has another shape. Only before the first
  /// step.
  void load_weights(const WeightSource& weight);
  /// Loads the tensors "weight/NAME"; throws InputError when one is missing too.
  void load_weights(const HostTensors& tensors);
  using WeightSink = std::function<void(const std::string& name, const HostTensor& weight)>;
  /// Gives all weights in their serial shapes, one after the other; where ranks are processes, the
  /// values to the first alone. Needs values.
  void each_weight(const WeightSink& take);

  /// Writes what a training needs to resume from here, each rank its part to a file of its own,
  /// "rank-0003.safetensors": the newest weights, those before them where the schedule computes
  /// with both, and the optimizer's state. Ranks whose part is another's too, a replica's, write
  /// none. Returns the files that ranks of this process have written. Between two runs. Needs
  /// values; throws InputError where a file cannot be written.
  std::vector<std::string> save_state(const std::string& folder);
  /// Resumes behind step `step` with what was written then, by ranks of any layout. Before the
  /// first step. Needs values; throws InputError where the state is of another model, optimizer, or
  /// precision.
  void load_state(const StoredState& state, int64_t step);

 protected:
  struct Member {
    std::unique_ptr<StageModel> model;
    std::unique_ptr<WeightVersions> weights;
    std::unique_ptr<Optimizer> optimizer;
  };
  Member& of(const Rank& rank) { return members_[static_cast<size_t>(rank.index)]; }
  StageResult execute(Rank& rank, const ScheduleRun& run);

  Cluster& cluster_;
  RunConfig run_;
  std::vector<Member> members_;  // of the local ranks
  int steps_ = 0;

 private:
  /// Makes an optimizer of the newest weights, without state of steps before.
  void make_optimizer(Rank& rank);
  void check_values() const;
  /// Makes a batch's forward passes under the newest weights, without dropout; `on_logits` may be
  /// empty. Returns the shares of the loss of the local ranks.
  using LogitsOf = std::function<output_layer::OnLogits(const Rank&)>;
  std::vector<double> forward(const Batch& batch, const LogitsOf& on_logits);
  /// Writes the rank's part of the first microbatch's logits, if it has one.
  static output_layer::OnLogits collect_logits(const Rank& rank, HostTensor& all,
                                               std::mutex& guard);
  /// Tensors of a rank that save_state() writes.
  std::vector<StateTensor> state_of(Rank& rank);

  OptimizerOptions optimizer_;
};

}  // namespace frugal::engine
