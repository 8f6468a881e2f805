#pragma once
#include <string_view>

#include "kernels/cost.h"

/// The optimizers' operations; what all operations have in common is in kernels/operations.h.
namespace frugal::kernels {

/// What the optimizers' operations have in common: weights of type T with their gradient of type A
/// or T, which is only read. master, of type A, is empty where T is A; otherwise it is what is
/// updated, and the weights are only rounded from it. Where T is narrower and there is no master,
/// the weights themselves are updated and rounded to T, as pure 16-bit training has it:
/// each step rounds them.
///
/// The new weights go to `result`, of the weights' type and size, which may be the weights and must
/// not overlap them otherwise; to the weights themselves where it is empty.
///
/// With keeps_state the new weights are all that is written, as of a step that may have to be made
/// otherwise: master and moments stay as they are. Without a master, `result` must not be the
/// weights then.
///
/// squared_norm is that of all gradients that are clipped together, [1], f64. Where its root is
/// larger than clip, and clip is not 0, the gradient is first multiplied by clip / root, a float32.
/// Where it is empty nothing is clipped. With finite_only nothing at all is written where it is not
/// finite. As one number it does not count among the bytes.
///
/// With a prediction, which needs a master, the weights are not what it becomes but what
/// `prediction` further updates like this one would make of it: w + prediction · (w − w before).
struct WeightUpdate {
  View weights, gradient, master{}, result{}, squared_norm{};
  float learning_rate = 1e-3F, weight_decay = 0;
  /// Decay takes learning_rate · weight_decay · weight from a weight; otherwise weight_decay ·
  /// weight is part of the gradient, as of a loss with weight_decay / 2 · Σ weight² (L2).
  bool decoupled = true;
  double clip = 0;
  float prediction = 0;
  bool keeps_state = false, finite_only = false;

  const View& target() const { return result.empty() ? weights : result; }
  double bytes() const {
    return detail::bytes_of(gradient, target()) +
           (master.empty() ? detail::bytes_of(weights) : state_bytes(master));
  }
  /// Of what is read, and written unless it stays.
  template <class... Views>
  double state_bytes(const Views&... state) const {
    return (keeps_state ? 1 : 2) * detail::bytes_of(state...);
  }
};

/// Momentum: m := beta · m + (1 − beta) · gradient, w := w − learning_rate · m (Narayanan et al.
/// 2021, arXiv:2006.09503, section 3.1: without bias correction). moment is of type A or T; an
/// empty one with beta = 0 makes it stochastic gradient descent.
struct Momentum {
  static constexpr std::string_view name = "momentum";
  WeightUpdate update;
  View moment{};
  float beta = 0.9F;
  Cost cost() const { return {0, update.bytes() + update.state_bytes(moment)}; }
};

/// Adam, with decoupled decay AdamW; moments of type A, or both of T. step counts from 1.
struct Adam {
  static constexpr std::string_view name = "adam";
  WeightUpdate update;
  View first_moment, second_moment;
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  int64_t step = 1;
  Cost cost() const {
    return {0, update.bytes() + update.state_bytes(first_moment, second_moment)};
  }
};

}  // namespace frugal::kernels
