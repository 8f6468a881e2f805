#include "kernels/cuda/ops/column_sum.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::kernels::cuda {
namespace {

template <bool wide, class T>
__global__ void __launch_bounds__(tile_threads)
    sum_tiles(Tiles tiles, const T* x, Accumulator<T>* partial) {
  using A = Accumulator<T>;
  constexpr int at_once = sizeof(T) == 2 ? 4 : 2;  // 64 bytes of a thread on their way
  const Tile tile(tiles);
  A sum[pack]{};
  each_row<at_once>(
      tiles, tile,
      [&](int64_t row) { return fetch<wide>(x + row * tiles.cols + tile.col, tile.count); },
      [&](int64_t, const Packed<T>& held) {
        A v[pack];
        held.get(v);
#pragma unroll
        for (int e = 0; e < pack; ++e) sum[e] += v[e];
      });
  add_up_tile(tiles, tile, sum, partial);
}

}  // namespace

template <>
void run(const ColumnSum& op, const Launch& on) {
  const Tiles tiles(on, 1, op.x.rows(), op.x.cols());
  dispatch(op.x.type, all_wide(op.x.cols(), op.x), [&]<class T, class Wide>(T, Wide) {
    using A = Accumulator<T>;
    A* const partial = take_partial_sums<A>(on, tiles);
    launch(on, sum_tiles<Wide::value, T>, tiles.blocks, tile_threads, tiles, op.x.as<T>(), partial);
    add_to<T>(on, tiles, partial, op.sum, 1);
  });
}

}  // namespace frugal::kernels::cuda
