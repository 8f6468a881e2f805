#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {
namespace {

constexpr double root = 0.79788456080286535588;  // √(2/π)
constexpr double cubic = 0.044715;

/// (1 + tanh u) / 2 = 1 / (1 + e^(−2u)) for u = √(2/π) (x + 0.044715 x³).
template <class V>
inline V gate(V x) {
  using A = ElementOf<V>;
  const V minus_2u = x * (x * x * A(-2 * root * cubic) + A(-2 * root));
  return 1 / (1 + exp(minus_2u));
}

}  // namespace

void run(const Gelu& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* x = op.x.as<T>();
    T* y = op.y.as<T>();
    const bool past = past_cache(op.y, op.x);
    parallel_vectors<A>(op.x.size(), [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      store(y + i, v * gate(v), count, past);
    });
  });
}

void run(const GeluBackward& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T *x = op.x.as<T>(), *dy = op.dy.as<T>();
    T* dx = op.dx.as<T>();
    const bool past = past_cache(op.dx, op.dy);
    parallel_vectors<A>(op.x.size(), [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      const auto g = gate(v);
      const auto twice_du = v * v * A(6 * root * cubic) + A(2 * root);
      const auto slope = g + v * g * (1 - g) * twice_du;
      store(dx + i, load<Vec<A>>(dy + i, count) * slope, count, past);
    });
  });
}

}  // namespace frugal::FRUGAL_SIMD
