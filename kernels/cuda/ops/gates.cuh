#pragma once
#include "kernels/cuda/ops/exponential.cuh"

/// Functions x · factor(x) with a factor between 0 and 1, and their slopes, for results of type T.
namespace frugal::kernels::cuda {

struct GeluGate {
  static constexpr double root = 0.79788456080286535588;  // √(2/π)
  static constexpr double cubic = 0.044715;

  /// (1 + tanh u) / 2 for u = √(2/π) (x + 0.044715 x³), as 1 / (1 + e^(−2u)).
  template <class T, class A>
  static __device__ A factor(A x) {
    return quotient<T>(A(1), 1 + exponential<T>(x * (x * x * A(-2 * root * cubic) + A(-2 * root))));
  }
  /// Derivative g + x g (1 − g) 2u' with u' = √(2/π) (1 + 3 · 0.044715 x²) and the factor g.
  template <class A>
  static __device__ A slope(A x, A g) {
    // Beyond ±100 g is 0 or 1, and x² may overflow.
    const A near = x < -100 ? A(-100) : x > 100 ? A(100) : x;
    const A twice_du = near * near * A(6 * root * cubic) + A(2 * root);
    return g * (1 - g) * near * twice_du + g;
  }
};

struct SiluGate {
  template <class T, class A>
  static __device__ A factor(A x) {
    return quotient<T>(A(1), 1 + exponential<T>(-x));
  }
  /// Derivative g + x g (1 − g) with the factor g.
  template <class A>
  static __device__ A slope(A x, A g) {
    return g * (1 - g) * x + g;
  }
};

}  // namespace frugal::kernels::cuda
