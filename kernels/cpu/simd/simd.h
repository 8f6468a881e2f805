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
  if constexpr (sizeof raw == 64) _mm512_stream_si512(static_cast<__m512i*>(to), bits<__m512i>(raw));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof raw == 32) _mm256_stream_si256(static_cast<__m256i*>(to), bits<__m256i>(raw));
#endif
#if defined(__SSE2__)
  if constexpr (sizeof raw == 16) _mm_stream_si128(static_cast<__m128i*>(to), bits<__m128i>(raw));
#endif
  if constexpr (sizeof raw < 16) std::memcpy(to, &raw, sizeof raw);
}

/// The lanes of stored elements, before conversion: `count` of them from memory, zeros after.
template <class T, int n>
inline VectorN<T, n> load_raw(const T* from, int64_t count) {
  VectorN<T, n> raw{};
  if (count >= n) {
    std::memcpy(&raw, from, sizeof raw);
  } else {
    for (int64_t i = 0; i < count; ++i) raw[i] = from[i];
  }
  return raw;
}
template <class T, int n>
inline void store_raw(T* to, VectorN<T, n> raw, int64_t count, bool past_cache) {
  if (count >= n) {
    if (past_cache && reinterpret_cast<uintptr_t>(to) % sizeof raw == 0) {
      store_past_cache(to, raw);
    } else {
      std::memcpy(to, &raw, sizeof raw);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = raw[i];
  }
}

/// Loads and stores as many elements as the vector has lanes, or `count` if that is fewer.
template <class V>
inline V load(const ElementOf<V>* from, int64_t count) {
  return load_raw<ElementOf<V>, lanes<ElementOf<V>>>(from, count);
}
template <class V>
inline V load(const Bf16* from, int64_t count) {
  constexpr int n = lanes<float>;
  const auto raw = load_raw<uint16_t, n>(&from->bits, count);
  return bits<V>(convert<VectorN<uint32_t, n>>(raw) << 16);
}
template <class V>
inline void store(ElementOf<V>* to, V x, int64_t count, bool past_cache = false) {
  store_raw<ElementOf<V>, lanes<ElementOf<V>>>(to, x, count, past_cache);
}
template <class V>
inline void store(Bf16* to, V x, int64_t count, bool past_cache = false) {
  constexpr int n = lanes<float>;
  const auto u = bits<VectorN<uint32_t, n>>(x);
  const auto rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const auto result = x == x ? rounded : (u >> 16) | 0x40u;
  store_raw<uint16_t, n>(&to->bits, convert<VectorN<uint16_t, n>>(result), count, past_cache);
}

/// x with `fill` in the lanes from `count` on.
template <class V>
inline V fill_tail(V x, int64_t count, ElementOf<V> fill) {
  for (int64_t i = count; i < lanes<ElementOf<V>>; ++i) x[i] = fill;
  return x;
}

/// Bytes as numbers.
template <class V>
inline V load_bytes(const uint8_t* from, int64_t count) {
  constexpr int n = lanes<ElementOf<V>>;
  using Integers = VectorN<std::conditional_t<sizeof(ElementOf<V>) == 4, int32_t, int64_t>, n>;
  return convert<V>(convert<Integers>(load_raw<uint8_t, n>(from, count)));
}

template <class V>
inline V max(V a, V b) {
  return a > b ? a : b;
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

/// e^x within 2 units in the last place; 0 below the least normal number, infinity above the
/// largest, NaN of NaN. x = n ln 2 + r with |r| ≤ ln 2 / 2; e^r by its Taylor series.
inline Vec<float> exp(Vec<float> x) {
  using V = Vec<float>;
  using I = VectorN<int32_t, lanes<float>>;
  constexpr float round = 0x1.8p23F;           // adding it leaves the nearest integer in the low bits
  constexpr float ln2_high = 0x1.62e4p-1F;     // 15 bits, so that n times it is exact
  constexpr float ln2_low = 0x1.7f7d1cp-20F;   // ln 2 − ln2_high
  const V clamped = x < -88.0F ? broadcast<V>(-88.0F) : (x > 89.0F ? broadcast<V>(89.0F) : x);
  const V shifted = clamped * 1.44269504F + round;
  const V n = shifted - round;
  const V r = (clamped - n * ln2_high) - n * ln2_low;
  V p = r * (1.0F / 5040) + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2^n in two factors: n reaches 128, which is no exponent of a finite number.
  const I whole = bits<I>(shifted) - bits<int32_t>(round);
  const I half = whole >> 1;
  const V result = p * bits<V>((half + 127) << 23) * bits<V>((whole - half + 127) << 23);
  return x < -87.33654F ? V{} : result;
}
/// The library's, one by one: double precision is the tests' oracle, not meant to be fast.
inline Vec<double> exp(Vec<double> x) {
  for (int i = 0; i < lanes<double>; ++i) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace frugal::FRUGAL_SIMD
