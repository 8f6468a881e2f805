#include "kernels/adam.h"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::FRUGAL_CUDA {
namespace {

/// `exact` are the weights themselves, or the master copy that they are rounded from; `rounded` is
/// null or the weights.
template <class T>
struct Update {
  using A = Accumulator<T>;
  const A* gradient;
  A *first, *second, *exact;
  T* rounded;
};

/// One pack at a time: its four operands are 128 bytes.
template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads)
    update(Update<T> op, AdamFactors<Accumulator<T>> f, int64_t size) {
  using A = Accumulator<T>;
  each_pack(size, [=](int64_t i, int64_t count) {
    A g[pack], m[pack], v[pack], w[pack];
    load<wide>(op.gradient + i, count, g);
    load<wide>(op.first + i, count, m);
    load<wide>(op.second + i, count, v);
    load<wide>(op.exact + i, count, w);
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      g[e] *= f.scale;
      m[e] = m[e] * f.beta1 + g[e] * (1 - f.beta1);
      v[e] = v[e] * f.beta2 + g[e] * g[e] * (1 - f.beta2);
      w[e] = w[e] * f.decay - m[e] * f.step / (sqrt(v[e]) * f.correction2 + f.epsilon);
    }
    store<wide>(op.first + i, count, m);
    store<wide>(op.second + i, count, v);
    store<wide>(op.exact + i, count, w);
    if (op.rounded != nullptr) store<wide>(op.rounded + i, count, w);
  });
}

}  // namespace

void run(const Adam& op, const Launch& on) {
  const int64_t size = op.weights.size();
  const bool wide =
      all_wide(size, op.weights, op.gradient, op.master, op.first_moment, op.second_moment);
  dispatch(op.weights.type, wide, [&]<class T, class Wide>(T, Wide) {
    using A = Accumulator<T>;
    const bool copied = !op.master.empty();
    const Update<T> operands{op.gradient.as<A>(), op.first_moment.as<A>(), op.second_moment.as<A>(),
                             (copied ? op.master : op.weights).template as<A>(),
                             copied ? op.weights.as<T>() : nullptr};
    launch(on, update<Wide::value, T>, elementwise_blocks(on, size), elementwise_threads, operands,
           AdamFactors<A>(op), size);
  });
}

}  // namespace frugal::FRUGAL_CUDA
