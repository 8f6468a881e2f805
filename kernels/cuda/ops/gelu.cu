#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/gates.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::kernels::cuda {
namespace {

template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads) forward(const T* x, T* y, int64_t size) {
  each_pack<sizeof(T) == 2 ? 2 : 1>(
      size, [=](int64_t i, int64_t count) { return fetch<wide>(x + i, count); },
      [=](int64_t i, int64_t count, const Packed<T>& held) {
        Accumulator<T> v[pack];
        held.get(v);
#pragma unroll
        for (auto& e : v) e *= GeluGate::factor<T>(e);
        store<wide>(y + i, count, v);
      });
}

template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads)
    backward(const T* x, const T* dy, T* dx, int64_t size) {
  using A = Accumulator<T>;
  each_pack(size, [=](int64_t i, int64_t count) {
    A v[pack], d[pack];
    load<wide>(x + i, count, v);
    load<wide>(dy + i, count, d);
#pragma unroll
    for (int e = 0; e < pack; ++e) d[e] *= GeluGate::slope(v[e], GeluGate::factor<T>(v[e]));
    store<wide>(dx + i, count, d);
  });
}

}  // namespace

template <>
void run(const Gelu& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x, op.y), [&]<class T, class Wide>(T, Wide) {
    launch(on, forward<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), op.y.as<T>(), size);
  });
}

template <>
void run(const GeluBackward& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x, op.dy, op.dx), [&]<class T, class Wide>(T, Wide) {
    launch(on, backward<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), op.dy.as<T>(), op.dx.as<T>(), size);
  });
}

}  // namespace frugal::kernels::cuda
