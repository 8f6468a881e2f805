#pragma once
#include <string_view>

#include "engine/model/parameter.h"

namespace frugal {

enum class OptimizerKind : uint8_t {
  sgd,       ///< stochastic gradient descent; no state
  momentum,  ///< one moment, without bias correction
  adam,      ///< two moments; weight decay is part of the gradient
  adamw      ///< two moments; weight decay is not
};
std::string_view name_of(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0.9;                             ///< of momentum
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< of adam and adamw
  double weight_decay = 0;                           ///< decoupled but for adam
  double clip = 1;  ///< greatest norm of the gradient of the whole model; 0: no clipping
};

/// Blocks of all weights of a rank (ParameterStore), of which a step computes the new weights from
/// those of one in another, which may be the same. Empty: from the parameters' own in place.
struct WeightBlocks {
  Tensor from, to;
};

/// Updates one rank's parameters, with moments, and master weights where weights are narrower, in
/// accumulation type.
class Optimizer {
 public:
  /// Allocates the kind's state, and takes the master weights from the parameters' own.
  Optimizer(Rank& rank, ParameterList parameters, OptimizerKind kind);

  void clear_gradients(Rank& rank);
  /// Makes partial gradients whole, clips by the norm of the tensor-parallel group's, updates.
  /// Returns the norm before clipping; NaN on a device without values and where ranks are absent.
  /// Throws WrongNumbers when it is not finite otherwise. options.kind is the constructor's.
  double step(Rank& rank, const OptimizerOptions& options, const WeightBlocks& blocks = {});

  // What a step consists of, for those who clip by the norm of more parameters than these:

  /// Makes the gradients that cover a shard of the sequence whole (Parameter::gradient_is_partial).
  void sum_partial_gradients(Rank& rank);
  /// ‖gradient‖² of the tensor-parallel group's parameters, replicated ones counted once: [1], f64.
  Tensor squared_norm(Rank& rank) const;
  /// Its root: NaN on a device without values; throws as step() does.
  double norm_of(Rank& rank, const Tensor& squares) const;
  /// The update, where the gradient of all that is clipped together has this norm. Parameters
  /// without a place in a block are updated in place. Throws std::logic_error for another kind.
  void update(Rank& rank, const OptimizerOptions& options, double norm,
              const WeightBlocks& blocks = {});

 private:
  /// Parameters that lie one behind the other and are treated alike: a whole model, usually. What
  /// lies between two of them is treated as they are.
  struct Group {
    const Parameter* first = nullptr;
    int64_t elements = 0;
    bool counted = true;               // in this rank's part of the gradient's norm
    Tensor master{};                   // [elements]; empty where the weight itself has its type
    Tensor moment{}, second_moment{};  // [elements], or empty: the kind decides
  };
  void allocate_state(Rank& rank, Group& group) const;
  static WeightUpdate update_of(const Group& group, const OptimizerOptions& options,
                                const WeightBlocks& blocks);

  ParameterList parameters_;
  OptimizerKind kind_;
  std::vector<Group> groups_;
  int64_t steps_ = 0;
};

}  // namespace frugal
