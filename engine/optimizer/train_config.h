#pragma once
#include <cstdint>

#include "engine/namespace.h"

namespace frugal::engine {
template <class T>
class Fields;

enum class OptimizerKind : uint8_t {
  sgd,       ///< stochastic gradient descent; no state
  momentum,  ///< one moment, without bias correction
  adam,      ///< two moments; weight decay is part of the gradient
  adamw      ///< two moments; weight decay is not
};
constexpr Names names_of(OptimizerKind) { return {"sgd", "momentum", "adam", "adamw"}; }

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double momentum = 0.9;                             ///< of momentum
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< of adam and adamw
  double weight_decay = 0;                           ///< decoupled but for adam
  /// Passes read weights that are so many further updates like the last ahead of the optimizer's
  /// own: a correction for gradients that are applied to later weights than they were computed
  /// with. Not of the papers; 0: none.
  double prediction = 0;
  double clip = 1;  ///< greatest norm of the gradient of the whole model; 0: no clipping

  static void describe(Fields<OptimizerOptions>& fields);
};

/// Schedule and rule of weight updates.
struct TrainConfig {
  OptimizerOptions optimizer;
  /// Learning rate: linear up to optimizer.learning_rate over warm_up steps, then a cosine down to
  /// a tenth of it at `steps`.
  int64_t warm_up = 0;
  int64_t steps = 1;

  double learning_rate(int64_t step) const;

  static void describe(Fields<TrainConfig>& fields);
};

}  // namespace frugal::engine
