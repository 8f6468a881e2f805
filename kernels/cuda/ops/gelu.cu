#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::FRUGAL_CUDA {
namespace {

constexpr double root = 0.79788456080286535588;  // √(2/π)
constexpr double cubic = 0.044715;

/// (1 + tanh u) / 2 for u = √(2/π) (x + 0.044715 x³), as 1 / (1 + e^(−2u)).
template <class A>
__device__ A gate(A x) {
  return 1 / (1 + exp(x * (x * x * A(-2 * root * cubic) + A(-2 * root))));
}

template <bool wide, class T>
__global__ void forward(const T* x, T* y, int64_t size) {
  each_pack<sizeof(T) == 2 ? 2 : 1>(
      size, [=](int64_t i, int64_t count) { return fetch<wide>(x + i, count); },
      [=](int64_t i, int64_t count, const Packed<T>& held) {
        Accumulator<T> v[pack];
        unpack(held, v);
#pragma unroll
        for (auto& e : v) e *= gate(e);
        store<wide>(y + i, count, v);
      });
}

/// With gate g and u' = √(2/π) (1 + 3 · 0.044715 x²): dy/dx = g + x g (1 − g) 2u'.
template <bool wide, class T>
__global__ void backward(const T* x, const T* dy, T* dx, int64_t size) {
  using A = Accumulator<T>;
  each_pack(size, [=](int64_t i, int64_t count) {
    A v[pack], d[pack];
    load<wide>(x + i, count, v);
    load<wide>(dy + i, count, d);
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      const A g = gate(v[e]);
      // Beyond ±100 g is 0 or 1, and x² may overflow.
      const A near = v[e] < -100 ? A(-100) : v[e] > 100 ? A(100) : v[e];
      const A twice_du = near * near * A(6 * root * cubic) + A(2 * root);
      d[e] *= g * (1 - g) * near * twice_du + g;
    }
    store<wide>(dx + i, count, d);
  });
}

}  // namespace

void run(const Gelu& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x, op.y), [&]<class T, class Wide>(T, Wide) {
    launch(on, forward<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), op.y.as<T>(), size);
  });
}

void run(const GeluBackward& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x, op.dy, op.dx), [&]<class T, class Wide>(T, Wide) {
    launch(on, backward<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), op.dy.as<T>(), op.dx.as<T>(), size);
  });
}

}  // namespace frugal::FRUGAL_CUDA
