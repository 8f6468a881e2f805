#pragma once
#include "kernels/cuda/ops/pack.cuh"

namespace frugal::kernels::cuda {

/// f(first, count) for each pack of [0, size), over the whole grid.
template <class F>
__device__ inline void each_pack(int64_t size, const F& f) {
  for (int64_t i = grid_thread() * pack; i < size; i += grid_threads() * pack)
    f(i, size - i < pack ? size - i : pack);
}

/// Calls use(first, count, fetch(first, count)), where `at_once` packs of a thread are fetched
/// before the first is used. The compiler may not do that itself: for all it knows one pack's store
/// is the next one's load.
template <int at_once, class Fetch, class Use>
__device__ inline void each_pack(int64_t size, const Fetch& fetch, const Use& use) {
  const int64_t step = grid_threads() * pack;
  for (int64_t i = grid_thread() * pack; i < size; i += at_once * step) {
    decltype(fetch(i, i)) held[at_once]{};
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t left = size - i - u * step;
      if (left > 0) held[u] = fetch(i + u * step, left < pack ? left : pack);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t left = size - i - u * step;
      if (left > 0) use(i + u * step, left < pack ? left : pack, held[u]);
    }
  }
}

inline constexpr int elementwise_threads = 256;

/// Blocks for each_pack().
inline int64_t elementwise_blocks(const Launch& on, int64_t size) {
  constexpr int64_t per_block = int64_t{elementwise_threads} * pack;
  return blocks_for(on, (size + per_block - 1) / per_block, 32);
}

}  // namespace frugal::kernels::cuda
