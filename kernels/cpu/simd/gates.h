#pragma once
#include <numbers>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/operations.h"

/// Activations of the form x · g(x), where g rises from 0 to 1. A gate has inverse<T>(x) = 1 /
/// g(x), for a result that is stored as T and infinite rather than wrong where g vanishes, and
/// slope(x, g) = (x · g(x))', from g = g(x).
namespace frugal::kernels::FRUGAL_SIMD {

/// g = 1 / (1 + e^(−x)).
struct SiluGate {
  template <class T, class V>
  static V inverse(V x) {
    return power_for<T>(x * -std::numbers::log2e_v<ElementOf<V>>) + 1;
  }
  template <class V>
  static V slope(V x, V g) {
    return g * (1 - g) * x + g;
  }
};

/// g = (1 + tanh u) / 2 = 1 / (1 + e^(−2u)) for u = √(2/π) (x + 0.044715 x³).
struct GeluGate {
  static constexpr double root = 0.79788456080286535588;  // √(2/π)
  static constexpr double cubic = 0.044715;

  template <class T, class V>
  static V inverse(V x) {
    using A = ElementOf<V>;
    constexpr double factor = -2 * root * std::numbers::log2e;
    return power_for<T>(x * (x * x * A(factor * cubic) + A(factor))) + 1;
  }
  /// g + x g (1 − g) 2u' with u' = √(2/π) (1 + 3 · 0.044715 x²).
  template <class V>
  static V slope(V x, V g) {
    using A = ElementOf<V>;
    const auto near = max(broadcast<V>(-100), x);  // beyond, g is 0 or 1, and x² may overflow
    const auto bounded = min(broadcast<V>(100), near);
    const auto twice_du = bounded * bounded * A(6 * root * cubic) + A(2 * root);
    return g * (1 - g) * bounded * twice_du + g;
  }
};

/// Calls f with the gate that an operation names.
template <class F>
inline void by_gate(Gate gate, const F& f) {
  switch (gate) {
    case Gate::silu:
      return f(SiluGate{});
    case Gate::gelu:
      return f(GeluGate{});
  }
}

}  // namespace frugal::kernels::FRUGAL_SIMD
