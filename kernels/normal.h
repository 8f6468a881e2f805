#pragma once
#include <cstdint>
#include <numbers>

/// Marks functions that a CUDA compiler compiles for the GPU.
#if defined(__CUDACC__)
#define FRUGAL_ON_GPU __device__
#else
#define FRUGAL_ON_GPU
#endif

/// Normal numbers in float32 that every processor draws the same: from words to numbers by
/// multiplications, additions and a square root, each rounded by itself. The caller sees to it that
/// none are contracted into fused operations.
///
/// Lanes says what is computed with: types Float, Word and Integer, of one or of several numbers of
/// 32 bits, to_float(Integer) and root(Float).
namespace frugal::kernels {

namespace detail {
template <class To, class From>
FRUGAL_ON_GPU inline To same_bits(From from) {
  return __builtin_bit_cast(To, from);
}
}  // namespace detail

/// log((w + 1/2) / 2^32), relative error below 4e-7. Words of the upper half are as near to 1 as
/// others are to 0: f = u − 1 keeps all digits there. u = 2^e (1 + f), √½ ≤ 1 + f < √2;
/// log(1 + f) = f − f²/2 + f³ p(f) with a minimax polynomial (relative error 6e-9).
template <class Lanes>
FRUGAL_ON_GPU inline typename Lanes::Float log_uniform(typename Lanes::Word w) {
  using V = typename Lanes::Float;
  using Integers = typename Lanes::Integer;
  using detail::same_bits;
  const auto upper = same_bits<Integers>(w) < 0;
  const auto distance = same_bits<Integers>(upper ? ~w : w);  // from the nearer end
  const V t = (Lanes::to_float(distance) + 0.5F) * 0x1p-32F;
  const auto u = same_bits<Integers>(upper ? 1.0F - t : t);
  const auto e = (u - 0x3f3504f3) >> 23;  // the bits of √½
  const V mantissa = same_bits<V>(u - (e << 23));
  const V f = (upper & (e == 0)) ? -t : mantissa - 1.0F;
  const V f2 = f * f, f4 = f2 * f2;
  const V p01 = f * -0.250008225F + 0.333333313F, p23 = f * -0.166233569F + 0.200012267F;
  const V p45 = f * -0.131601945F + 0.142017618F, p67 = f * -0.0763442963F + 0.127615497F;
  const V p = ((p67 * f2 + p45) * f4 + (p23 * f2 + p01));
  return Lanes::to_float(e) * std::numbers::ln2_v<float> + (f + f2 * (f * p - 0.5F));
}

/// cos and sin of 2π w / 2^32. A whole number of quarter turns is taken off exactly; minimax
/// polynomials (errors 4e-9) do the remaining angle of at most π/4.
template <class Lanes>
struct Direction {
  using V = typename Lanes::Float;
  using Words = typename Lanes::Word;
  V cosine, sine;

  FRUGAL_ON_GPU explicit Direction(Words w) {
    using detail::same_bits;
    const Words quarters = (w + 0x20000000u) >> 30;
    const V x = Lanes::to_float(same_bits<typename Lanes::Integer>(w - (quarters << 30))) *
                static_cast<float>(2 * std::numbers::pi * 0x1p-32);
    const V z = x * x;
    const V s = x + x * z * ((z * -1.95172979e-4F + 8.33217800e-3F) * z - 0.166666552F);
    const V c =
        1.0F + z * (z * ((z * 2.44384501e-5F - 1.38873677e-3F) * z + 4.16666456e-2F) - 0.5F);
    const auto swapped = (quarters & 1u) != 0;
    const Words minus_sine = (quarters & 2u) << 30, minus_cosine = ((quarters + 1u) & 2u) << 30;
    cosine = same_bits<V>(same_bits<Words>(swapped ? s : c) ^ minus_cosine);
    sine = same_bits<V>(same_bits<Words>(swapped ? c : s) ^ minus_sine);
  }
};

/// Box and Muller, 1958: words (0, 1) of a group make its elements 0 and 1, words (2, 3) the
/// others.
template <class Lanes>
struct NormalPair {
  typename Lanes::Float first, second;

  FRUGAL_ON_GPU NormalPair(typename Lanes::Word uniform, typename Lanes::Word angle,
                           float deviation) {
    const auto radius = Lanes::root(log_uniform<Lanes>(uniform) * -2.0F) * deviation;
    const Direction<Lanes> direction(angle);
    first = radius * direction.cosine;
    second = radius * direction.sine;
  }
};

}  // namespace frugal::kernels
