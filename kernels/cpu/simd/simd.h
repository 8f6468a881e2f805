#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/types.h"

/// Vectors as wide as the instruction set that is being compiled for, over GCC's vector extensions:
/// arithmetic, comparison (a mask of integers) and `mask ? a : b` are the language's.
namespace frugal::FRUGAL_SIMD {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <class A>
inline constexpr int lanes = vector_bytes / static_cast<int>(sizeof(A));

template <class E, int n>
struct VectorOf {
  typedef E Type __attribute__((vector_size(sizeof(E) * n)));  // NOLINT: `using` loses attributes
};
template <class E, int n>
using VectorN = typename VectorOf<E, n>::Type;
template <class A>
using Vec = VectorN<A, lanes<A>>;

/// What a stored type is computed in.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class V>
using ElementOf = std::remove_cvref_t<decltype(V{}[0])>;

template <class To, class From>
inline To bits(From from) {
  return __builtin_bit_cast(To, from);
}
template <class To, class From>
inline To convert(From from) {
  return __builtin_convertvector(from, To);
}
template <class V>
inline V broadcast(ElementOf<V> x) {
  return V{} + x;
}

/// A store that does not read the line first nor keep it in the cache; `to` is aligned.
template <class Raw>
inline void store_past_cache(void* to, Raw raw) {
#if defined(__AVX512F__)
  if constexpr (sizeof raw == 64)
    _mm512_stream_si512(static_cast<__m512i*>(to), bits<__m512i>(raw));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof raw == 32)
    _mm256_stream_si256(static_cast<__m256i*>(to), bits<__m256i>(raw));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof raw == 16) _mm_stream_si128(static_cast<__m128i*>(to), bits<__m128i>(raw));
#endif
  if constexpr (sizeof raw < 16) std::memcpy(to, &raw, sizeof raw);
}

/// The lanes of stored elements, before conversion: `count` of them from memory, zeros after. What
/// is copied one by one has variables of its own, so that whole vectors stay in registers.
template <class T, int n>
inline VectorN<T, n> load_raw(const T* from, int64_t count) {
  if (count >= n) {
    VectorN<T, n> raw;
    std::memcpy(&raw, from, sizeof raw);
    return raw;
  }
  T part[n]{};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  VectorN<T, n> raw;
  std::memcpy(&raw, part, sizeof raw);
  return raw;
}
template <class T, int n>
inline void store_raw(T* to, VectorN<T, n> raw, int64_t count, bool past_cache) {
  if (count < n) {
    T part[n];
    std::memcpy(part, &raw, sizeof raw);
    for (int64_t i = 0; i < count; ++i) to[i] = part[i];
  } else if (past_cache && reinterpret_cast<uintptr_t>(to) % sizeof raw == 0) {
    store_past_cache(to, raw);
  } else {
    std::memcpy(to, &raw, sizeof raw);
  }
}

inline constexpr int floats = lanes<float>;
using U16 = VectorN<uint16_t, floats>;
using U32 = VectorN<uint32_t, floats>;

/// GCC 12 takes the general conversions of these vectors apart.
inline U32 widen(U16 x) {
#if defined(__AVX512F__)
  return bits<U32>(_mm512_maskz_cvtepu16_epi32(0xffff, bits<__m256i>(x)));
#elif defined(__AVX2__)
  return bits<U32>(_mm256_cvtepu16_epi32(bits<__m128i>(x)));
#else
  return convert<U32>(x);
#endif
}
inline U16 narrow(U32 x) {
#if defined(__AVX512F__)
  return bits<U16>(_mm512_maskz_cvtepi32_epi16(0xffff, bits<__m512i>(x)));
#else
  return convert<U16>(x);
#endif
}

/// Loads and stores as many elements as the vector has lanes, or `count` if that is fewer.
template <class V>
inline V load(const ElementOf<V>* from, int64_t count) {
  return load_raw<ElementOf<V>, lanes<ElementOf<V>>>(from, count);
}
template <class V>
inline V load(const Bf16* from, int64_t count) {
  return bits<V>(widen(load_raw<uint16_t, floats>(&from->bits, count)) << 16);
}
template <class V>
inline void store(ElementOf<V>* to, V x, int64_t count, bool past_cache = false) {
  store_raw<ElementOf<V>, lanes<ElementOf<V>>>(to, x, count, past_cache);
}
template <class V>
inline void store(Bf16* to, V x, int64_t count, bool past_cache = false) {
  const auto u = bits<U32>(x);
  const auto number = x == x;  // NOLINT(misc-redundant-expression): a NaN is not
  const auto result = number ? u + 0x7fffu + ((u >> 16) & 1u) : u | 0x400000u;
  store_raw<uint16_t, floats>(&to->bits, narrow(result >> 16), count, past_cache);
}

/// x with `fill` in the lanes from `count` on.
template <class V>
inline V fill_tail(V x, int64_t count, ElementOf<V> fill) {
  if (count >= lanes<ElementOf<V>>) return x;
  V index{};
  for (int i = 0; i < lanes<ElementOf<V>>; ++i) index[i] = static_cast<ElementOf<V>>(i);
  return index < static_cast<ElementOf<V>>(count) ? x : broadcast<V>(fill);
}

/// Bytes as numbers.
template <class V>
inline V load_bytes(const uint8_t* from, int64_t count) {
  constexpr int n = lanes<ElementOf<V>>;
  const auto bytes = load_raw<uint8_t, n>(from, count);
#if defined(__AVX512F__)
  if constexpr (n == 16) {
    return _mm512_maskz_cvtepi32_ps(0xffff,
                                    _mm512_maskz_cvtepu8_epi32(0xffff, bits<__m128i>(bytes)));
  }
#elif defined(__AVX2__)
  if constexpr (n == 8) {
    int64_t low;
    std::memcpy(&low, &bytes, sizeof low);
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(low)));
  }
#endif
  using Integers = VectorN<std::conditional_t<sizeof(ElementOf<V>) == 4, int32_t, int64_t>, n>;
  return convert<V>(convert<Integers>(bytes));
}

/// The second operand where one is NaN.
inline Vec<float> max(Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
  return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline Vec<double> max(Vec<double> a, Vec<double> b) { return a > b ? a : b; }
inline Vec<float> min(Vec<float> a, Vec<float> b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
  return _mm_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}

/// Over all lanes, always in the same order.
template <class V>
inline ElementOf<V> sum_lanes(V x) {
  ElementOf<V> sum = 0;
  for (int i = 0; i < lanes<ElementOf<V>>; ++i) sum += x[i];
  return sum;
}
template <class V>
inline ElementOf<V> max_lanes(V x) {
  ElementOf<V> most = x[0];
  for (int i = 1; i < lanes<ElementOf<V>>; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

inline Vec<float> square_root(Vec<float> x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int i = 0; i < lanes<float>; ++i) x[i] = std::sqrt(x[i]);
  return x;
#endif
}
inline Vec<double> square_root(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = std::sqrt(x[i]);
  return x;
}

/// p · 2^n for whole n in [−151, 127]; may be 0 where the result is less than the least normal
/// number.
inline Vec<float> scale_by_power(Vec<float> p, Vec<float> n) {
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  using Integers = VectorN<int32_t, lanes<float>>;
  const auto result = p * bits<Vec<float>>((convert<Integers>(n) + 127) << 23);
  return n < -126.0F ? Vec<float>{} : result;
#endif
}

/// e^x within 2 units in the last place; below the least normal number it may be 0, above e^88.3 it
/// is that, which is all that softmax and gelu need; NaN of NaN. x = n ln 2 + r, |r| ≤ ln 2 / 2;
/// e^r by a minimax polynomial (relative error 2e-9), in Estrin's form because latency counts.
inline Vec<float> exp(Vec<float> x) {
  using V = Vec<float>;
  constexpr float round = 0x1.8p23F;          // adding it leaves the nearest whole number
  constexpr float ln2_high = 0x1.62e4p-1F;    // 15 bits, so that n times it is exact
  constexpr float ln2_low = 0x1.7f7d1cp-20F;  // ln 2 − ln2_high
  const V bounded = min(broadcast<V>(88.3F), max(broadcast<V>(-104.0F), x));
  const V n = (bounded * 1.44269504F + round) - round;
  const V r = (bounded - n * ln2_high) - n * ln2_low;
  const V r2 = r * r;
  const V low = r + 1.0F;
  const V middle = r * 0.166664196804584F + 0.49999992056096365F;
  const V high = (r * 0.008374857073818208F + 0.04166822868331438F) + r2 * 0.001383679401642862F;
  return scale_by_power((high * r2 + middle) * r2 + low, n);
}
/// The library's, one by one: double precision is the tests' oracle, not meant to be fast.
inline Vec<double> exp(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace frugal::FRUGAL_SIMD
