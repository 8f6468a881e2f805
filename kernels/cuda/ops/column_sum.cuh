#pragma once
#include "kernels/cuda/ops/tiles.cuh"

/// Sums over the rows of each group, in two kernels: partial sums of tiles, then these in their
/// order. So the order is fixed, without atomic additions.
namespace frugal::kernels::cuda {

/// Room for the partial sums of tiles, [groups · chunks, cols].
template <class A>
A* take_partial_sums(const Launch& on, const Tiles& tiles) {
  return on.scratch->take<A>(static_cast<size_t>(tiles.blocks / tiles.across * tiles.cols));
}

/// partial := the sums over all threads of the block that have the same columns. All of them must
/// call it.
template <class A>
__device__ inline void add_up_tile(const Tiles& of, const Tile& tile, const A (&sum)[pack],
                                   A* partial) {
  // Four more, so that a warp's threads, of four packs' columns, read different banks.
  FRUGAL_SHARED(A, of_thread, [pack][tile_threads + 4]);
#pragma unroll
  for (int e = 0; e < pack; ++e) of_thread[e][threadIdx.x] = sum[e];
  __syncthreads();
  const auto width = static_cast<unsigned>(of.width);
  for (unsigned j = threadIdx.x; j < width * pack; j += tile_threads) {
    if (tile.first_col + j >= of.cols) break;
    A total = 0;
    for (unsigned t = j / pack; t < tile_threads; t += width) total += of_thread[j % pack][t];
    partial[tile.piece * of.cols + tile.first_col + j] = total;
  }
}

/// sum[group, j] += the group's partial sums. Each warp has 32 columns of every eighth chunk.
template <class A, class G>
__global__ void __launch_bounds__(tile_threads)
    add_partial_sums(const A* partial, G* sum, int64_t chunks, int64_t cols, unsigned across) {
  constexpr int warps = tile_threads / warp;
  FRUGAL_SHARED(A, of_warp, [warps][warp]);
  const unsigned lane = threadIdx.x % warp, index = threadIdx.x / warp;
  const int64_t group = blockIdx.x / across, col = int64_t{blockIdx.x % across} * warp + lane;
  A total = 0;
  if (col < cols) {
    const A* from = partial + group * chunks * cols + col;
#pragma unroll 8
    for (int64_t c = index; c < chunks; c += warps) total += from[c * cols];
  }
  of_warp[index][lane] = total;
  __syncthreads();
  if (index != 0 || col >= cols) return;
  for (int w = 1; w < warps; ++w) total += of_warp[w][lane];
  G& to = sum[group * cols + col];
  to = to_stored<G>(to_wide(to) + total);
}

/// Adds what tiles left in `partial` to sum [groups, cols], of type T or A.
template <class T, class A>
void add_to(const Launch& on, const Tiles& tiles, const A* partial, const View& sum,
            int64_t groups) {
  const int64_t across = (tiles.cols + warp - 1) / warp;
  dispatch_either<T>(sum.type, [&]<class G>(G) {
    launch(on, add_partial_sums<A, G>, groups * across, tile_threads, partial, sum.as<G>(),
           tiles.chunks, tiles.cols, static_cast<unsigned>(across));
  });
}

}  // namespace frugal::kernels::cuda
