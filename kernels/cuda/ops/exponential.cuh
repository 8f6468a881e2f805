#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::kernels::cuda {

/// e^x for a result that is stored as T: a product and one instruction where that is bf16.
template <class T, class A>
__device__ inline A exponential(A x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return __expf(x);
  else
    return exp(x);
}

/// e^((x − most) · scale) for results that are stored as T: two instructions where that is bf16.
/// What rounding does to most · scale is then a factor that all x have in common, as a sum of them
/// has.
template <class T, class A>
class ExponentialBelow {
 public:
  __device__ ExponentialBelow(A most, A scale)
      : factor_(approximate ? scale * A(1.4426950408889634) : scale),  // log2 e
        most_(approximate ? -most * factor_ : most) {}

  __device__ A operator()(A x) const {
    if constexpr (approximate)
      return power_of_two(fma(x, factor_, most_));
    else
      return exponential<T>((x - most_) * factor_);
  }

 private:
  static constexpr bool approximate = std::is_same_v<T, Bf16>;

  /// 0 below 2^-126.
  static __device__ float power_of_two(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2(x);
#endif
  }

  A factor_, most_;
};

/// a / b for a result that is stored as T: two instructions where that is bf16, and 0 for b beyond
/// 2^126.
template <class T, class A>
__device__ inline A quotient(A a, A b) {
  if constexpr (std::is_same_v<T, Bf16>)
    return __fdividef(a, b);
  else
    return a / b;
}

/// The least number of all.
template <class A>
__device__ inline A lowest() {
  return -static_cast<A>(INFINITY);
}

}  // namespace frugal::kernels::cuda
