#pragma once
#include <memory>

#include "engine/cluster.h"
#include "engine/model/gpt.h"
#include "engine/train/batch.h"
#include "engine/train/host_tensor.h"
#include "engine/train/optimizer.h"

namespace frugal {

struct TrainConfig {
  OptimizerOptions optimizer;
  /// Learning rate: linear up to optimizer.learning_rate over warm_up steps, then a cosine down to
  /// a tenth of it at `steps`.
  int64_t warm_up = 0;
  int64_t steps = 1;

  double learning_rate(int64_t step) const;
};

/// Loss and norm are NaN where they would mean nothing: on a virtual device, and where ranks are
/// absent (Cluster::whole).
struct StepResult {
  double loss = 0;           ///< mean over the batch's counted labels, nats
  double gradient_norm = 0;  ///< before clipping
  double seconds = 0;        ///< until the last rank ended
  double flops = 0;          ///< of the matrix multiplications executed by all t ranks
};

/// Trains a GPT on a cluster: gradient accumulation over the microbatches of a batch, then
/// the optimizer.
class Trainer {
 public:
  Trainer(Cluster& cluster, const RunConfig& run, const TrainConfig& train);

  /// Computes a batch's gradients and drops them: what the first step would otherwise pay for once
  /// (caches, pages, kernels made for these shapes) is there afterwards; no weight changes.
  void warm_up(const Batch& batch);
  /// Throws WrongNumbers when the loss or the gradient's norm means something and is not finite.
  StepResult step(const Batch& batch);
  /// The mean loss of a batch in nats, without dropout; nothing is changed. NaN where
  /// a step's loss is.
  double evaluate(const Batch& batch);

  /// Weights, tokens, labels, logits, loss and all gradients of one microbatch under the current
  /// weights, in their serial shapes: "weight/NAME", "gradient/NAME", "tokens", "labels", "logits",
  /// "loss". The weights do not change. Throws std::logic_error on a virtual device and where ranks
  /// are absent.
  HostTensors snapshot(const MicroBatch& batch);
  /// Replaces all weights by the tensors "weight/NAME"; throws InputError when one is missing or
  /// has another shape. Only before the first step.
  void load_weights(const HostTensors& tensors);

  const RunConfig& run_config() const { return run_; }

 private:
  struct Member {
    std::unique_ptr<Gpt> model;
    std::unique_ptr<Optimizer> optimizer;
  };
  Member& of(const Rank& rank) { return members_[static_cast<size_t>(rank.tensor_group.rank())]; }
  /// Σ of the tokens' losses; with gradients of its `scale`-fold where scale is not 0.
  double run_batch(Rank& rank, const Batch& batch, float scale);

  Cluster& cluster_;
  RunConfig run_;
  TrainConfig train_;
  std::vector<Member> members_;
  int64_t steps_ = 0;
};

}  // namespace frugal
