#include "kernels/normal.h"

#include <numbers>
#include <utility>

#include "kernels/cpu/simd/random_elements.h"
#include "kernels/cpu/simd/rows.h"

// Compiled without contraction into fused operations, so that every processor draws the same.
namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// a[0], b[0], a[1], b[1], … in two vectors, and back.
template <class X, int... i>
void zip(X& a, X& b, std::integer_sequence<int, i...>) {
  const X first = __builtin_shufflevector(a, b, (i / 2 + i % 2 * floats)...);
  b = __builtin_shufflevector(a, b, (floats / 2 + i / 2 + i % 2 * floats)...);
  a = first;
}
template <class X, int... i>
void unzip(X& a, X& b, std::integer_sequence<int, i...>) {
  const X even = __builtin_shufflevector(a, b, (2 * i)...);
  b = __builtin_shufflevector(a, b, (2 * i + 1)...);
  a = even;
}

template <class T>
void normals(RandomWords words, float deviation, T* to) {
  constexpr auto indices = std::make_integer_sequence<int, floats>();
  auto& [uniform, angle] = words.part;
  unzip(uniform, angle, indices);
  NormalPair<FloatLanes> made(uniform, angle, deviation);
  zip(made.first, made.second, indices);
  store(to, made.first, floats);
  store(to + floats, made.second, floats);
}

/// Normal number in double precision by the library's functions, one by one: for tests.
double normal(const Philox::Words& words, int element) {
  const size_t pair = element < 2 ? 0 : 2;
  const double uniform = (words[pair] + 0.5) * 0x1p-32;  // never 0, never 1
  const double angle = 2 * std::numbers::pi * (words[pair + 1] * 0x1p-32);
  return std::sqrt(-2 * std::log(uniform)) * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}
void fill(const RandomNormal& op, double* to, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) {
    const auto at = static_cast<uint64_t>(op.index.at(i));
    to[i] = op.deviation * normal(Philox::generate(op.stream, at / 4), static_cast<int>(at % 4));
  }
}

template <class T>
void fill(const RandomNormal& op, T* to, int64_t first, int64_t count) {
  random_elements<4>(op.stream, op.index, first, count, to + first,
                     [&](const RandomWords& words, T* x) { normals(words, op.deviation, x); });
}

}  // namespace

template <>
void run(const RandomNormal& op) {
  by_type(op.x.type, [&]<class T>(T) {
    T* const x = op.x.as<T>();
    parallel_pieces(op.x.size(),
                    [=, &op](int64_t first, int64_t count) { fill(op, x, first, count); });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
