#include "kernels/cpu/simd/gates.h"
#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

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

}  // namespace frugal::kernels::FRUGAL_SIMD
