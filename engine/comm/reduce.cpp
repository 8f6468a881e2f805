#include "engine/comm/reduce.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace frugal::engine {
namespace {

/// Elements summed before any is written: the sums stay in the first-level cache.
constexpr int64_t block = 2048;

template <class T>
void reduce(const void* const* sources, int source_count, int64_t begin, int64_t count,
            void* const* targets, int target_count, int64_t target_begin) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::array<A, block> sum;
  for (int64_t done = 0; done < count; done += block) {
    const int64_t n = std::min(block, count - done);
    A* const acc = sum.data();
    for (int s = 0; s < source_count; ++s) {
      const T* const x = static_cast<const T*>(sources[s]) + begin + done;
      if (s == 0) {
        for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<A>(x[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<A>(x[i]);
      }
    }
    for (int t = 0; t < target_count; ++t) {
      T* const y = static_cast<T*>(targets[t]) + target_begin + done;
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(acc[i]);
    }
  }
}

}  // namespace

void reduce_into(DType type, const void* const* sources, int source_count, int64_t begin,
                 int64_t count, void* const* targets, int target_count, int64_t target_begin) {
  const auto run = [&](auto element) {
    reduce<decltype(element)>(sources, source_count, begin, count, targets, target_count,
                              target_begin);
  };
  switch (type) {
    case DType::f32:
      return run(float{});
    case DType::bf16:
      return run(Bf16{});
    case DType::f64:
      return run(double{});
    default:
      throw std::logic_error("reduce_into: type cannot be summed");
  }
}

}  // namespace frugal::engine
