#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

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
