#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/sort.cuh"
#include "kernels/cuda/ops/tiles.cuh"

// The gradient is one sum for each id that occurs, over its positions in their order, so ids are
// sorted first, stably (sort.cuh). Then there is a warp for each position in this order and each
// 256 columns. It does nothing unless its id is the first of its kind; else it loads the id's row
// of the table once, adds the id's rows of dy to it in registers, and stores it. So dy is read once
// and the rows of the table that occur are read and written once. An id that occurs n times takes n
// / 4 loads one after the other: what is slow is one id that occurs tens of thousands of times.
namespace frugal::cuda {
namespace {

template <bool wide, bool scaled, class T>
__global__ void __launch_bounds__(tile_threads)
    look_up(Tiles tiles, const int32_t* ids, const T* table, T* y, int64_t first,
            int64_t vocabulary, Accumulator<T> scale) {
  const Tile tile(tiles);
  each_row<4>(
      tiles, tile,
      [&](int64_t row) {
        const int64_t id = ids[row] - first;
        Packed<T> held{};
        if (id >= 0 && id < vocabulary)
          held = fetch<wide>(table + id * tiles.cols + tile.col, tile.count);
        return held;
      },
      [&](int64_t row, const Packed<T>& held) {
        T* const to = y + row * tiles.cols + tile.col;
        if constexpr (!scaled) return put<wide>(to, tile.count, held);
        Accumulator<T> v[pack];
        unpack(held, v);
#pragma unroll
        for (auto& e : v) e *= scale;
        store<wide>(to, tile.count, v);
      });
}

constexpr unsigned every_lane = 0xffffffffU;

/// sum += scale · the rows of dy that the positions from `at` on with the key there stand for.
template <bool wide, class T, class A>
__device__ void add_rows(const Sorted& ids, int64_t at, int32_t key, const T* dy, int64_t cols,
                         int64_t count, A scale, A (&sum)[pack]) {
  constexpr int at_once = 4;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int same = warp; same == warp; at += warp) {
    const bool mine = at + lane < ids.size && ids.keys[at + lane] == key;
    const int32_t row = mine ? ids.positions[at + lane] : 0;
    const unsigned others = ~__ballot_sync(every_lane, mine);
    same = others == 0 ? warp : __ffs(static_cast<int>(others)) - 1;
    for (int first = 0; first < same; first += at_once) {
      Packed<T> held[at_once]{};
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int64_t from = __shfl_sync(every_lane, row, (first + u) % warp);
        if (first + u < same && count > 0) held[u] = fetch<wide>(dy + from * cols, count);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        A v[pack];
        unpack(held[u], v);
#pragma unroll
        for (int e = 0; e < pack; ++e)
          if (first + u < same) sum[e] += v[e] * scale;
      }
    }
  }
}

/// Keys from `vocabulary` on are of other shards.
template <bool wide, class T, class G>
__global__ void __launch_bounds__(tile_threads)
    add_sorted(Sorted ids, const T* dy, G* dtable, int64_t cols, int32_t vocabulary,
               Accumulator<T> scale) {
  constexpr int warps = tile_threads / warp, at_a_time = warp * pack;
  const int64_t across = (cols + at_a_time - 1) / at_a_time, all = ids.size * across;
  const int index = static_cast<int>(threadIdx.x) / warp;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int64_t w = int64_t{blockIdx.x} * warps + index; w < all; w += int64_t{gridDim.x} * warps) {
    const int64_t at = w / across, col = (w - at * across) * at_a_time + lane * pack;
    const int32_t key = ids.keys[at];
    if (key >= vocabulary || (at > 0 && ids.keys[at - 1] == key)) continue;
    const int64_t count = cols - col < pack ? cols - col : pack;
    G* const to = dtable + key * cols + col;
    Accumulator<T> sum[pack]{};
    if (count > 0) load<wide>(to, count, sum);
    add_rows<wide>(ids, at, key, dy + col, cols, count, scale, sum);
    if (count > 0) store<wide>(to, count, sum);
  }
}

}  // namespace

void run(const Embedding& op, const Launch& on) {
  const int64_t cols = op.table.cols();
  const Tiles tiles(on, 1, op.ids.size(), cols);
  dispatch(op.table.type, all_wide(cols, op.table, op.y), [&]<class T, class Wide>(T, Wide) {
    const auto kernel =
        op.scale == 1 ? look_up<Wide::value, false, T> : look_up<Wide::value, true, T>;
    launch(on, kernel, tiles.blocks, tile_threads, tiles, op.ids.as<int32_t>(), op.table.as<T>(),
           op.y.as<T>(), op.first, op.table.rows(), Accumulator<T>{op.scale});
  });
}

void run(const EmbeddingBackward& op, const Launch& on) {
  const int64_t cols = op.dy.cols(), vocabulary = op.dtable.rows();
  const Sorted ids = sort_ids(on, op.ids.as<int32_t>(), op.ids.size(), op.first, vocabulary);
  const int64_t warps = ids.size * ((cols + warp * pack - 1) / (warp * pack));
  constexpr int64_t per_block = tile_threads / warp;
  dispatch(op.dy.type, all_wide(cols, op.dy, op.dtable), [&]<class T, class Wide>(T, Wide) {
    dispatch_either<T>(op.dtable.type, [&]<class G>(G) {
      launch(on, add_sorted<Wide::value, T, G>,
             blocks_for(on, (warps + per_block - 1) / per_block, 64), tile_threads, ids,
             op.dy.as<T>(), op.dtable.as<G>(), cols, static_cast<int32_t>(vocabulary),
             Accumulator<T>{op.scale});
    });
  });
}

}  // namespace frugal::cuda
