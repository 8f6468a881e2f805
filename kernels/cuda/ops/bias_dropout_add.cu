#include "kernels/cuda/ops/column_sum.cuh"
#include "kernels/cuda/ops/keep.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::kernels::cuda {
namespace {

/// Blocks that a multiprocessor has at a time, each thread's registers being limited to that: the
/// compiler would rather make the random bits of several packs at once.
template <bool wide, class T>
constexpr int resident = wide && sizeof(T) < 8 ? 4 : 2;

/// Wide kernels are for whole groups of random bits only: the other way to decide would take
/// registers even where it is not gone.
template <bool wide, class A>
__device__ uint32_t decide_pack(const Keep<A>& keep, int64_t first) {
  return wide ? decide_group(keep, group_of(keep, first)) : decide(keep, first);
}

template <class A>
__device__ void add(const A (&x)[pack], A (&to)[pack]) {
#pragma unroll
  for (int e = 0; e < pack; ++e) to[e] += x[e];
}

template <class T>
struct Forward {
  const T *x, *bias, *residual;  // the last two may be null
  T* y;
  uint8_t* mask;  // may be null
  Keep<Accumulator<T>> keep;
  bool decides;
};

/// Operands of a pack.
template <class T>
struct Operands {
  Packed<T> x, residual;
};

template <bool wide, class T>
__global__ void __launch_bounds__(tile_threads, resident<wide, T>)
    forward(Tiles tiles, Forward<T> op) {
  using A = Accumulator<T>;
  constexpr int at_once = sizeof(T) == 2 ? 2 : 1;  // as many as need no more registers
  const Tile tile(tiles);
  A bias[pack]{};
  if (op.bias != nullptr && tile.count > 0)
    load<wide>(op.bias + tile.group * tiles.cols + tile.col, tile.count, bias);
  each_row<at_once>(
      tiles, tile,
      [&](int64_t row) {
        const int64_t i = row * tiles.cols + tile.col;
        Operands<T> held{};
        held.x = fetch<wide>(op.x + i, tile.count);
        if (op.residual != nullptr) held.residual = fetch<wide>(op.residual + i, tile.count);
        return held;
      },
      [&](int64_t row, const Operands<T>& held) {
        const int64_t i = row * tiles.cols + tile.col;
        A v[pack], residual[pack];
        held.x.get(v);
        if (op.bias != nullptr) add(bias, v);
        if (op.decides) {
          const uint32_t kept = decide_pack<wide>(op.keep, i);
          if (op.mask != nullptr) write_mask<wide>(op.mask + i, tile.count, kept);
          apply(kept, op.keep.scale, v);
        }
        held.residual.get(residual);
        if (op.residual != nullptr) add(residual, v);
        store<wide>(op.y + i, tile.count, v);
      });
}

template <class T>
struct Backward {
  const T* dy;
  const uint8_t* mask;  // may be null
  T* dx;
  Accumulator<T>* partial;  // may be null
  Keep<Accumulator<T>> keep;
  bool decides;
};

template <class T>
struct Arriving {
  Packed<T> dy;
  uint2 mask;
};

template <bool wide, class T>
__global__ void __launch_bounds__(tile_threads, resident<wide, T>)
    backward(Tiles tiles, Backward<T> op) {
  using A = Accumulator<T>;
  constexpr int at_once = sizeof(T) == 2 ? 3 : 2;
  const Tile tile(tiles);
  A sum[pack]{};
  each_row<at_once>(
      tiles, tile,
      [&](int64_t row) {
        const int64_t i = row * tiles.cols + tile.col;
        Arriving<T> held{};
        held.dy = fetch<wide>(op.dy + i, tile.count);
        if (op.mask != nullptr) held.mask = fetch_mask<wide>(op.mask + i, tile.count);
        return held;
      },
      [&](int64_t row, const Arriving<T>& held) {
        const int64_t i = row * tiles.cols + tile.col;
        A v[pack];
        held.dy.get(v);
        if (op.mask != nullptr)
          apply(kept_in(held.mask), op.keep.scale, v);
        else if (op.decides)
          apply(decide_pack<wide>(op.keep, i), op.keep.scale, v);
        store<wide>(op.dx + i, tile.count, v);
        add(v, sum);
      });
  if (op.partial != nullptr) add_up_tile(tiles, tile, sum, op.partial);
}

}  // namespace

template <>
void run(const BiasDropoutAdd& op, const Launch& on) {
  const int64_t cols = op.x.cols(), groups = op.bias.empty() ? 1 : op.bias.rows();
  const Tiles tiles(on, groups, op.x.rows(), cols);
  const bool wide = all_wide(cols, op.x, op.bias, op.residual, op.y, op.mask) &&
                    (!op.dropout.active() || keeps_packs(op.dropout.index));
  dispatch(op.x.type, wide, [&]<class T, class Wide>(T, Wide) {
    const Forward<T> operands{op.x.as<T>(),
                              op.bias.as<T>(),
                              op.residual.as<T>(),
                              op.y.as<T>(),
                              op.mask.as<uint8_t>(),
                              Keep<Accumulator<T>>(op.dropout),
                              op.dropout.active() || !op.mask.empty()};
    launch(on, forward<Wide::value, T>, tiles.blocks, tile_threads, tiles, operands);
  });
}

template <>
void run(const BiasDropoutAddBackward& op, const Launch& on) {
  const int64_t cols = op.dy.cols(), groups = op.dbias.empty() ? 1 : op.dbias.rows();
  const Tiles tiles(on, groups, op.dy.rows(), cols);
  const bool wide = all_wide(cols, op.dy, op.dx, op.mask) &&
                    (!op.mask.empty() || !op.dropout.active() || keeps_packs(op.dropout.index));
  dispatch(op.dy.type, wide, [&]<class T, class Wide>(T, Wide) {
    using A = Accumulator<T>;
    A* const partial = op.dbias.empty() ? nullptr : take_partial_sums<A>(on, tiles);
    const Backward<T> operands{op.dy.as<T>(), op.mask.as<uint8_t>(), op.dx.as<T>(),
                               partial,       Keep<A>(op.dropout),   op.dropout.active()};
    launch(on, backward<Wide::value, T>, tiles.blocks, tile_threads, tiles, operands);
    if (partial != nullptr) add_to<T>(on, tiles, partial, op.dbias, groups);
  });
}

}  // namespace frugal::kernels::cuda
