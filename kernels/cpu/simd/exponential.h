#pragma once
#include <numbers>

#include "kernels/cpu/simd/simd.h"

/// Exponentials, as exact as the type needs that the result is stored as.
namespace frugal::kernels::FRUGAL_SIMD {

/// p · 2^n, n rounded down; may be 0 where the result is less than the least normal number, and
/// infinite from 2^128 on. Without AVX-512 n is whole, from −151 to 128.
inline Vec<float> scale_by_power(Vec<float> p, Vec<float> n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  using Integers = VectorN<int32_t, lanes<float>>;
  const auto result = p * bits<Vec<float>>((convert<Integers>(n) + 127) << 23);
  return n < -126.0F ? Vec<float>{} : result;
#endif
}

/// The nearest whole number, for |x| < 2^22.
inline Vec<float> rounded(Vec<float> x) {
#if defined(__AVX512F__)
  return _mm512_maskz_roundscale_ps(0xffff, x, 0);
#else
  constexpr float round = 0x1.8p23F;  // adding it leaves the nearest whole number
  return (x + round) - round;
#endif
}

/// 2^t with a relative error of 3e-6, where that of bf16 is 4e-3; below the least normal number
/// perhaps 0, and from 2^128 on infinite.
inline Vec<float> coarse_power(Vec<float> t) {
#if defined(__AVX512DQ__)
  const auto f = bits<Vec<float>>(_mm512_maskz_reduce_ps(0xffff, t, _MM_FROUND_TO_NEG_INF));
  const Vec<float> n = t;  // scaling rounds it down
#else
  t = min(broadcast<Vec<float>>(128.4F), max(broadcast<Vec<float>>(-127.0F), t));
  const Vec<float> n = rounded(t - 0.5F), f = t - n;
#endif
  // Minimax on [0, 1], exactly 1 at 0.
  const auto p =
      (((f * 0.0134266843F + 0.0522424742F) * f + 0.241280205F) * f + 0.693044845F) * f + 1.0F;
  return scale_by_power(p, n);
}

/// e^x for x ≤ 89, or NaN, within 3 units in the last place, below e^−20 within 5; below the least
/// normal number perhaps 0, and from e^88.3 on perhaps infinite. x = n ln 2 + r, |r| ≤ ln 2 / 2;
/// e^r by a minimax polynomial (relative error 1e-7), in Estrin's form because latency counts.
inline Vec<float> exp(Vec<float> x) {
  const auto bounded = max(broadcast<Vec<float>>(-104.0F), x);
  const auto n = rounded(bounded * 1.44269504F);
#if defined(__AVX512F__)  // explicit, because compilers need not fuse
  const Vec<float> r =
      _mm512_maskz_fnmadd_ps(0xffff, n, broadcast<Vec<float>>(0.693147181F), bounded);
#elif defined(__FMA__)
  const Vec<float> r = _mm256_fnmadd_ps(n, broadcast<Vec<float>>(0.693147181F), bounded);
#else
  constexpr float ln2_high = 0x1.62e4p-1F;    // 15 bits, so that n times it is exact
  constexpr float ln2_low = 0x1.7f7d1cp-20F;  // ln 2 − ln2_high
  const auto r = (bounded - n * ln2_high) - n * ln2_low;
#endif
  const auto r2 = r * r;
  const auto high = (r * 8.31252014e-3F + 4.18901568e-2F) * r2 + (r * 0.166671147F + 0.499992315F);
  return scale_by_power(high * r2 + (r + 1.0F), n);
}
/// The library's, one by one: double precision is the tests' oracle, not meant to be fast.
inline Vec<double> exp(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

/// e^(factor · x) for a result that is stored as T.
template <class T, class V>
inline V exp_for(V x, ElementOf<V> factor = 1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return coarse_power(x * (factor * std::numbers::log2e_v<float>));
  } else {
    return exp(x * factor);
  }
}

/// 2^x for a result that is stored as T.
template <class T, class V>
inline V power_for(V x) {
  if constexpr (std::is_same_v<T, Bf16>) return coarse_power(x);
  if constexpr (std::is_same_v<T, float>) x = min(broadcast<V>(128.4F), x);
  return exp(x * std::numbers::ln2_v<ElementOf<V>>);
}

/// tanh x for a result that is stored as T, to a few units of its last place; ±1 far from 0. Near
/// 0, where 1 − 2 / (1 + e^(2x)) cancels, by an odd polynomial (relative error 4e-9).
template <class T, class V>
inline V tanh_for(V x) {
  if constexpr (std::is_same_v<T, double>) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = std::tanh(x[i]);
    return x;
  } else {
    const V far = 1 - 2 / (power_for<T>(x * (2 * std::numbers::log2e_v<float>)) + 1);
    const V z = x * x;
    const V p = ((z * -6.61022783e-3F + 2.13093887e-2F) * z - 5.39094288e-2F) * z + 0.133331137F;
    const V near = x + x * z * (p * z - 0.33333332F);
    return z < 0.55F * 0.55F ? near : far;
  }
}

}  // namespace frugal::kernels::FRUGAL_SIMD
