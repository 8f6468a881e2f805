#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::kernels::cuda {
namespace {

template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads)
    soft_cap(const T* x, T* y, int64_t size, Accumulator<T> cap, Accumulator<T> inverse) {
  each_pack<sizeof(T) == 2 ? 2 : 1>(
      size, [=](int64_t i, int64_t count) { return fetch<wide>(x + i, count); },
      [=](int64_t i, int64_t count, const Packed<T>& held) {
        Accumulator<T> v[pack];
        held.get(v);
#pragma unroll
        for (auto& e : v) e = cap * tanh(e * inverse);
        store<wide>(y + i, count, v);
      });
}

}  // namespace

template <>
void run(const SoftCap& op, const Launch& on) {
  const int64_t size = op.x.size();
  dispatch(op.x.type, all_wide(size, op.x, op.y), [&]<class T, class Wide>(T, Wide) {
    const Accumulator<T> cap{op.cap};
    launch(on, soft_cap<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads,
           op.x.as<T>(), op.y.as<T>(), size, cap, 1 / cap);
  });
}

}  // namespace frugal::kernels::cuda
