#include "kernels/cuda/ops/gates.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/tiles.cuh"

// Tiles are of the result's columns: a thread has a pack of the gate's columns and the one of what
// it gates, n columns further.
namespace frugal::kernels::cuda {
namespace {

template <class T>
struct Halves {
  Packed<T> gate, gated;
};

/// Gate and other half of a row of x [rows, 2n].
template <bool wide, class T>
__device__ Halves<T> fetch_halves(const T* x, int64_t row, int64_t n, const Tile& tile) {
  const T* const from = x + 2 * row * n + tile.col;
  return {fetch<wide>(from, tile.count), fetch<wide>(from + n, tile.count)};
}

template <class G, bool wide, class T>
__global__ void __launch_bounds__(tile_threads) forward(Tiles tiles, const T* x, T* y) {
  constexpr int at_once = sizeof(T) == 2 ? 2 : 1;
  const Tile tile(tiles);
  each_row<at_once>(
      tiles, tile, [&](int64_t row) { return fetch_halves<wide>(x, row, tiles.cols, tile); },
      [&](int64_t row, const Halves<T>& held) {
        Accumulator<T> gate[pack], v[pack];
        held.gate.get(gate);
        held.gated.get(v);
#pragma unroll
        for (int e = 0; e < pack; ++e) v[e] *= gate[e] * G::template factor<T>(gate[e]);
        store<wide>(y + row * tiles.cols + tile.col, tile.count, v);
      });
}

template <class T>
struct Incoming {
  Halves<T> x;
  Packed<T> dy;
};

/// Every thread reads what it then overwrites, where dx is x.
template <class G, bool wide, class T>
__global__ void __launch_bounds__(tile_threads)
    backward(Tiles tiles, const T* x, const T* dy, T* dx) {
  const Tile tile(tiles);
  const int64_t n = tiles.cols;
  each_row<1>(
      tiles, tile,
      [&](int64_t row) {
        return Incoming<T>{fetch_halves<wide>(x, row, n, tile),
                           fetch<wide>(dy + row * n + tile.col, tile.count)};
      },
      [&](int64_t row, const Incoming<T>& held) {
        Accumulator<T> gate[pack], gated[pack], d[pack];
        held.x.gate.get(gate);
        held.x.gated.get(gated);
        held.dy.get(d);
#pragma unroll
        for (int e = 0; e < pack; ++e) {
          const auto factor = G::template factor<T>(gate[e]), slope = G::slope(gate[e], factor);
          const auto by_gate = d[e] * slope * gated[e];
          gated[e] = d[e] * gate[e] * factor;
          gate[e] = by_gate;
        }
        T* const to = dx + 2 * row * n + tile.col;
        store<wide>(to, tile.count, gate);
        store<wide>(to + n, tile.count, gated);
      });
}

/// f(SiluGate{} or GeluGate{}).
template <class F>
void dispatch_gate(Gate gate, const F& f) {
  if (gate == Gate::silu)
    f(SiluGate{});
  else
    f(GeluGate{});
}

}  // namespace

template <>
void run(const GatedUnit& op, const Launch& on) {
  const Tiles tiles(on, 1, op.y.rows(), op.y.cols());
  dispatch(op.x.type, all_wide(op.y.cols(), op.x, op.y), [&]<class T, class Wide>(T, Wide) {
    dispatch_gate(op.gate, [&]<class G>(G) {
      launch(on, forward<G, Wide::value, T>, tiles.blocks, tile_threads, tiles, op.x.as<T>(),
             op.y.as<T>());
    });
  });
}

template <>
void run(const GatedUnitBackward& op, const Launch& on) {
  const Tiles tiles(on, 1, op.dy.rows(), op.dy.cols());
  const bool wide = all_wide(op.dy.cols(), op.x, op.dy, op.dx);
  dispatch(op.x.type, wide, [&]<class T, class Wide>(T, Wide) {
    dispatch_gate(op.gate, [&]<class G>(G) {
      launch(on, backward<G, Wide::value, T>, tiles.blocks, tile_threads, tiles, op.x.as<T>(),
             op.dy.as<T>(), op.dx.as<T>());
    });
  });
}

}  // namespace frugal::kernels::cuda
