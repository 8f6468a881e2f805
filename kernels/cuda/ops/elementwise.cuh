#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::FRUGAL_CUDA {

/// f(first, count) for each pack of [0, size), over the whole grid.
template <class F>
__device__ inline void each_pack(int64_t size, const F& f) {
  for (int64_t i = grid_thread() * pack; i < size; i += grid_threads() * pack)
    f(i, size - i < pack ? size - i : pack);
}

inline constexpr int elementwise_threads = 256;

/// Blocks for each_pack().
inline int64_t elementwise_blocks(const Launch& on, int64_t size) {
  constexpr int64_t per_block = int64_t{elementwise_threads} * pack;
  return blocks_for(on, (size + per_block - 1) / per_block, 32);
}

}  // namespace frugal::FRUGAL_CUDA
