#include <numbers>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {
namespace {

constexpr double root = 0.79788456080286535588;  // √(2/π)
constexpr double cubic = 0.044715;

/// 1 + e^(−2u) for u = √(2/π) (x + 0.044715 x³): its inverse is (1 + tanh u) / 2.
template <class T, class V>
inline V inverse_gate(V x) {
  using A = ElementOf<V>;
  constexpr double factor = -2 * root * std::numbers::log2e;
  return power_for<T>(x * (x * x * A(factor * cubic) + A(factor))) + 1;
}

}  // namespace

void run(const Gelu& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* x = op.x.as<T>();
    const bool past = past_cache(op.y, op.x);
    parallel_map(op.x.size(), op.y.as<T>(), past, [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      return v / inverse_gate<T>(v);
    });
  });
}

/// With gate g and u' = √(2/π) (1 + 3 · 0.044715 x²): dy/dx = g + x g (1 − g) 2u'.
void run(const GeluBackward& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T *x = op.x.as<T>(), *dy = op.dy.as<T>();
    const bool past = past_cache(op.dx, op.dy);
    parallel_map(op.x.size(), op.dx.as<T>(), past, [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      const auto g = 1 / inverse_gate<T>(v);
      const auto near =
          max(broadcast<Vec<A>>(-100), v);  // beyond, g is 0 or 1, and v² may overflow
      const auto bounded = min(broadcast<Vec<A>>(100), near);
      const auto twice_du = bounded * bounded * A(6 * root * cubic) + A(2 * root);
      return load<Vec<A>>(dy + i, count) * (g * (1 - g) * bounded * twice_du + g);
    });
  });
}

}  // namespace frugal::FRUGAL_SIMD
