#pragma once
#include <cmath>

#include "kernels/operations.h"

/// Factors that every element of an optimizer's step has in common, in arithmetic of type A.
namespace frugal::kernels {

/// Factor of the gradient.
struct Clipping {
  const double* squared_norm;  ///< on the device; null where there is none
  double clip;
  bool finite_only;
  static constexpr float no_update = -1;  ///< a scale that says that nothing is written

  explicit Clipping(const WeightUpdate& op)
      : squared_norm(op.squared_norm.empty() ? nullptr : op.squared_norm.as<double>()),
        clip(op.clip),
        finite_only(op.finite_only) {}
  constexpr float scale(double squared, double norm) const {
    if (finite_only && !(squared - squared == 0)) return no_update;
    return clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1;
  }
};

/// g := scale · gradient + l2 · w, with Clipping's scale, for the weight's rule below, and w :=
/// decay · w − what it says. What is rounded from w is further by `prediction` · the difference.
/// Decoupled decay: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019,
/// algorithm 2.
template <class A>
struct UpdateFactors {
  A l2, decay, prediction;

  explicit UpdateFactors(const WeightUpdate& op)
      : l2(op.decoupled ? A(0) : A(op.weight_decay)),
        decay(op.decoupled ? 1 - A(op.learning_rate) * A(op.weight_decay) : A(1)),
        prediction(A(op.prediction)) {}
};

/// m := beta m + (1 − beta) g, and w loses rate m.
template <class A>
struct MomentumFactors {
  A beta, rate;

  explicit MomentumFactors(const Momentum& op)
      : beta(A(op.beta)), rate(A(op.update.learning_rate)) {}
};

/// m := beta1 m + (1 − beta1) g, v := beta2 v + (1 − beta2) g², and w loses rate m / (correction2
/// √v + epsilon). Kingma and Ba, "Adam", ICLR 2015, algorithm 1.
template <class A>
struct AdamFactors {
  A beta1, beta2, rate, correction2, epsilon;

  explicit AdamFactors(const Adam& op)
      : beta1(A(op.beta1)),
        beta2(A(op.beta2)),
        rate(A(op.update.learning_rate / (1 - std::pow(double{op.beta1}, double(op.step))))),
        correction2(A(1 / std::sqrt(1 - std::pow(double{op.beta2}, double(op.step))))),
        epsilon(A(op.epsilon)) {}
};

}  // namespace frugal::kernels
