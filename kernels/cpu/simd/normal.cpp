#include <numbers>
#include <utility>

#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/random_elements.h"
#include "kernels/cpu/simd/rows.h"

// Compiled without contraction into fused operations, so that every processor draws the same.
namespace frugal::FRUGAL_SIMD {
namespace {

using V = Vec<float>;
using Integers = VectorN<int32_t, floats>;

/// log((w + 1/2) / 2^32), relative error below 4e-7. Words of the upper half are as near to 1 as
/// others are to 0: f = u − 1 keeps all digits there. u = 2^e (1 + f), √½ ≤ 1 + f < √2;
/// log(1 + f) = f − f²/2 + f³ p(f) with a minimax polynomial (relative error 6e-9).
inline V log_uniform(U32 w) {
  const auto upper = bits<Integers>(w) < 0;
  const auto distance = bits<Integers>(upper ? ~w : w);  // from the nearer end
  const V t = (convert<V>(distance) + 0.5F) * 0x1p-32F;
  const auto u = bits<Integers>(upper ? 1.0F - t : t);
  const auto e = (u - 0x3f3504f3) >> 23;  // the bits of √½
  const V mantissa = bits<V>(u - (e << 23));
  const V f = upper & (e == 0) ? -t : mantissa - 1.0F;
  const V f2 = f * f, f4 = f2 * f2;
  const V p01 = f * -0.250008225F + 0.333333313F, p23 = f * -0.166233569F + 0.200012267F;
  const V p45 = f * -0.131601945F + 0.142017618F, p67 = f * -0.0763442963F + 0.127615497F;
  const V p = ((p67 * f2 + p45) * f4 + (p23 * f2 + p01));
  return convert<V>(e) * std::numbers::ln2_v<float> + (f + f2 * (f * p - 0.5F));
}

/// cos and sin of 2π w / 2^32. A whole number of quarter turns is taken off exactly; minimax
/// polynomials (errors 4e-9) do the remaining angle of at most π/4.
struct Direction {
  V cosine, sine;

  explicit Direction(U32 w) {
    const U32 quarters = (w + 0x20000000u) >> 30;
    const V x = convert<V>(bits<Integers>(w - (quarters << 30))) *
                static_cast<float>(2 * std::numbers::pi * 0x1p-32);
    const V z = x * x;
    const V s = x + x * z * ((z * -1.95172979e-4F + 8.33217800e-3F) * z - 0.166666552F);
    const V c =
        1.0F + z * (z * ((z * 2.44384501e-5F - 1.38873677e-3F) * z + 4.16666456e-2F) - 0.5F);
    const auto swapped = (quarters & 1u) != 0;
    const U32 minus_sine = (quarters & 2u) << 30, minus_cosine = ((quarters + 1u) & 2u) << 30;
    cosine = bits<V>(bits<U32>(swapped ? s : c) ^ minus_cosine);
    sine = bits<V>(bits<U32>(swapped ? c : s) ^ minus_sine);
  }
};

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

/// Box and Muller, 1958: words (0, 1) of a group make its elements 0 and 1, words (2, 3) the
/// others.
template <class T>
void normals(RandomWords words, float deviation, T* to) {
  constexpr auto indices = std::make_integer_sequence<int, floats>();
  auto& [uniform, angle] = words.part;
  unzip(uniform, angle, indices);
  const V radius = square_root(log_uniform(uniform) * -2.0F) * deviation;
  const Direction direction(angle);
  V x = radius * direction.cosine, y = radius * direction.sine;
  zip(x, y, indices);
  store(to, x, floats);
  store(to + floats, y, floats);
}

/// In double precision with the library's functions, one by one: for tests.
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

void run(const RandomNormal& op) {
  by_type(op.x.type, [&]<class T>(T) {
    T* const x = op.x.as<T>();
    parallel_pieces(op.x.size(),
                    [=, &op](int64_t first, int64_t count) { fill(op, x, first, count); });
  });
}

}  // namespace frugal::FRUGAL_SIMD
