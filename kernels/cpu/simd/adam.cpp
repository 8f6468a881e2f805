#include "kernels/adam.h"

#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {
namespace {

/// `exact` are the weights themselves, or the master copy that they are rounded from.
template <class T, class A>
void update(const Adam& op, A* exact, T* rounded) {
  using V = Vec<A>;
  const AdamFactors<A> f(op);
  const A* const gradient = op.gradient.as<A>();
  A *const first = op.first_moment.as<A>(), *const second = op.second_moment.as<A>();
  parallel_vectors<A>(op.weights.size(), [=](int64_t i, int64_t count) {
    const V g = load<V>(gradient + i, count) * f.scale;
    const V m = load<V>(first + i, count) * f.beta1 + g * (1 - f.beta1);
    const V v = load<V>(second + i, count) * f.beta2 + g * g * (1 - f.beta2);
    const V change = m * f.step / (square_root(v) * f.correction2 + f.epsilon);
    const V w = load<V>(exact + i, count) * f.decay - change;
    store(first + i, m, count);
    store(second + i, v, count);
    store(exact + i, w, count);
    if (rounded != nullptr) store(rounded + i, w, count);
  });
}

}  // namespace

void run(const Adam& op) {
  by_type(op.weights.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const View& exact = op.master.empty() ? op.weights : op.master;
    update<T, A>(op, exact.as<A>(), op.master.empty() ? nullptr : op.weights.as<T>());
  });
}

}  // namespace frugal::FRUGAL_SIMD
