#include <numbers>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/rows.h"

/// Activations of the form x · g(x), where g rises from 0 to 1. A gate has inverse<T>(x) = 1 /
/// g(x), for a result that is stored as T and infinite rather than wrong where g vanishes, and
/// slope(x, g) = (x · g(x))', from g = g(x).
namespace frugal::kernels::FRUGAL_SIMD {

namespace {

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
void by_gate(Gate gate, const F& f) {
  switch (gate) {
    case Gate::silu:
      return f(SiluGate{});
    case Gate::gelu:
      return f(GeluGate{});
  }
}

}  // namespace

template <>
void run(const Gelu& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* x = op.x.as<T>();
    const bool past = past_cache(op.y, op.x);
    parallel_map(op.x.size(), op.y.as<T>(), past, [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      return v / GeluGate::inverse<T>(v);
    });
  });
}

template <>
void run(const GeluBackward& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T *x = op.x.as<T>(), *dy = op.dy.as<T>();
    const bool past = past_cache(op.dx, op.dy);
    parallel_map(op.x.size(), op.dx.as<T>(), past, [=](int64_t i, int64_t count) {
      const auto v = load<Vec<A>>(x + i, count);
      return load<Vec<A>>(dy + i, count) * GeluGate::slope(v, 1 / GeluGate::inverse<T>(v));
    });
  });
}

template <>
void run(const GatedUnit& op) {
  const int64_t n = op.y.cols();
  const bool past = past_cache(op.y, op.x);
  by_type(op.x.type, [&]<class T>(T) {
    using V = Vec<Accumulator<T>>;
    by_gate(op.gate, [&]<class G>(G) {
      parallel(op.y.rows(), n, [&](int64_t row) {
        const T *const x = op.x.as<T>() + row * 2 * n, *const up = x + n;
        map(n, op.y.as<T>() + row * n, past, [=](int64_t j, int64_t count) {
          const V v = load<V>(x + j, count);
          return v / G::template inverse<T>(v) * load<V>(up + j, count);
        });
      });
    });
  });
}

template <>
void run(const GatedUnitBackward& op) {
  const int64_t n = op.dy.cols();
  const bool past = past_cache(op.dx, op.x);
  by_type(op.x.type, [&]<class T>(T) {
    using V = Vec<Accumulator<T>>;
    by_gate(op.gate, [&]<class G>(G) {
      parallel(op.dy.rows(), 2 * n, [&](int64_t row) {
        const T *const x = op.x.as<T>() + row * 2 * n, *const dy = op.dy.as<T>() + row * n;
        T* const dx = op.dx.as<T>() + row * 2 * n;
        map_pairs(n, dx, dx + n, past, [=](int64_t j, int64_t count) {
          const V v = load<V>(x + j, count), up = load<V>(x + n + j, count);
          const V d = load<V>(dy + j, count), g = 1 / G::template inverse<T>(v);
          return std::pair{d * up * G::slope(v, g), d * (v * g)};
        });
      });
    });
  });
}

template <>
void run(const SoftCap& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const T* const x = op.x.as<T>();
    const A cap = A(op.cap), per_cap = 1 / cap;
    const bool past = past_cache(op.y, op.x);
    parallel_map(op.x.size(), op.y.as<T>(), past, [=](int64_t i, int64_t count) {
      return tanh_for<T>(load<Vec<A>>(x + i, count) * per_cap) * cap;
    });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
