#pragma once
#include <cmath>

#include "kernels/operations.h"

namespace frugal {

/// What every element of a step of Adam is computed with, in arithmetic of type A: m := beta1 m +
/// (1 − beta1) g, v := beta2 v + (1 − beta2) g², w := decay w − step m / (correction2 √v +
/// epsilon). Kingma and Ba, "Adam", ICLR 2015, algorithm 1; decay of Loshchilov and Hutter,
/// "Decoupled weight decay regularization", ICLR 2019, algorithm 2.
template <class A>
struct AdamFactors {
  A scale, beta1, beta2, decay, step, correction2, epsilon;

  explicit AdamFactors(const Adam& op)
      : scale(A(op.gradient_scale)),
        beta1(A(op.beta1)),
        beta2(A(op.beta2)),
        decay(1 - A(op.learning_rate) * A(op.weight_decay)),
        step(A(op.learning_rate / (1 - std::pow(double{op.beta1}, double(op.step))))),
        correction2(A(1 / std::sqrt(1 - std::pow(double{op.beta2}, double(op.step))))),
        epsilon(A(op.epsilon)) {}
};

}  // namespace frugal
