#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::cuda {

/// e^x for a result that is stored as T: a product and one instruction where that is bf16.
template <class T, class A>
__device__ inline A exponential(A x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return __expf(x);
  else
    return exp(x);
}

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

}  // namespace frugal::cuda
