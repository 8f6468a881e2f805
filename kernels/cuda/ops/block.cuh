#pragma once
#include "kernels/cuda/ops/pack.cuh"
#include "kernels/cuda/ops/shared.cuh"

/// Sums and maxima over the threads of a block. Blocks have a whole number of warps, at most 32.
namespace frugal::kernels::cuda {

inline constexpr int warp = 32;

struct Plus {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};
struct Maximum {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return fmax(a, b);
  }
};

/// combine(…) of every lane's x, the same bits in every lane.
template <class A, class Combine>
__device__ inline A reduce_warp(A x, Combine combine) {
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffU, x, distance));
  return x;
}

/// combine(…) of every thread's x, the same bits in every thread. `start` changes nothing. All
/// threads of the block must call it.
template <class A, class Combine>
__device__ inline A reduce_block(A x, A start, Combine combine) {
  FRUGAL_SHARED(A, of_warp, [warp]);
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int index = static_cast<int>(threadIdx.x) / warp;
  const int warps = static_cast<int>(blockDim.x) / warp;
  x = reduce_warp(x, combine);
  if (warps == 1) return x;
  __syncthreads();  // an earlier reduction may still be read
  if (lane == 0) of_warp[index] = x;
  __syncthreads();
  return reduce_warp(lane < warps ? of_warp[lane] : start, combine);
}

template <class A>
__device__ inline A sum_block(A x) {
  return reduce_block(x, A{0}, Plus{});
}

}  // namespace frugal::kernels::cuda
