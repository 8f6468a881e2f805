#include "kernels/cpu/simd/gates.h"
#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

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

}  // namespace frugal::kernels::FRUGAL_SIMD
