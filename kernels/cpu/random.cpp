#include "kernels/cpu/random.h"

#include <cmath>
#include <numbers>

#include "kernels/philox.h"

namespace frugal {
namespace {

/// Box and Muller, 1958: words (0, 1) of a group make its elements 0 and 1, words (2, 3) the
/// others.
double normal(const Philox::Words& words, int element) {
  const size_t pair = element < 2 ? 0 : 2;
  const double uniform = (words[pair] + 0.5) * 0x1p-32;  // never 0, never 1
  const double angle = 2 * std::numbers::pi * (words[pair + 1] * 0x1p-32);
  return std::sqrt(-2 * std::log(uniform)) * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

template <class T, class A>
void fill(const RandomNormal& op) {
  T* x = op.x.as<T>();
  const int64_t size = op.x.size();
#pragma omp parallel for schedule(static) if (size > 4096)
  for (int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<uint64_t>(op.index.at(i));
    const double value = normal(Philox::generate(op.stream, at / 4), static_cast<int>(at % 4));
    x[i] = T(static_cast<A>(op.deviation * value));
  }
}

}  // namespace

void run(const RandomNormal& op) {
  switch (op.x.type) {
    case DType::bf16:
      return fill<Bf16, float>(op);
    case DType::f64:
      return fill<double, double>(op);
    default:
      return fill<float, float>(op);
  }
}

}  // namespace frugal
