#pragma once
#include "engine/model/parameter.h"

namespace frugal {

struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  double clip = 1;  ///< greatest norm of the gradient of the whole model; 0: no clipping
};

/// Adam with master weights and moments in accumulation type, for one rank's parameters.
class AdamOptimizer {
 public:
  AdamOptimizer(Rank& rank, ParameterList parameters);

  void clear_gradients(Rank& rank);
  /// Makes the gradients that cover a shard of the sequence whole (Parameter::gradient_is_partial).
  void sum_partial_gradients(Rank& rank);
  /// Makes partial gradients whole, clips by the global norm, updates. Returns the norm
  /// before clipping; NaN on a device without values and where ranks are absent. Throws
  /// WrongNumbers when it is not finite otherwise.
  double step(Rank& rank, const AdamOptions& options);

 private:
  /// Parameters that lie one behind the other and are treated alike: a whole model, usually.
  struct Group {
    Tensor weights, gradients;     // [elements], what lies between two parameters too
    bool counted = true;           // in this rank's part of the gradient's norm
    Tensor master, first, second;  // master is empty where the weight itself has its type
  };
  void add(Rank& rank, const Tensor& weights, const Tensor& gradients, bool counted);
  /// ‖gradient‖ over the whole model: shards of all ranks, and replicated weights once.
  double gradient_norm(Rank& rank);

  ParameterList parameters_;
  std::vector<Group> groups_;
  int64_t steps_ = 0;
};

}  // namespace frugal
