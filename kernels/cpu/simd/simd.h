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
///
/// Sources of this folder are compiled once per instruction set, each time with another
/// FRUGAL_SIMD, which names the namespace. Every one of these objects emits inline functions of
/// shared headers; the linker keeps the first, so the baseline is linked first.
namespace frugal::kernels::FRUGAL_SIMD {

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

/// Type that a stored type is computed in.
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

/// 0, 1, 2, …
template <class V>
inline V iota() {
  V index{};
  for (int i = 0; i < static_cast<int>(sizeof(V) / sizeof index[0]); ++i) {
    index[i] = static_cast<ElementOf<V>>(i);
  }
  return index;
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

/// bf16 as float: its bits are the upper half.
inline Vec<float> widen(U16 x) {
#if defined(__AVX512BW__)
  const auto to_upper = bits<__m512i>(iota<U32>() << 16);
  return bits<Vec<float>>(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, to_upper,
                                                         _mm512_castsi256_si512(bits<__m256i>(x))));
#elif defined(__AVX2__)
  return bits<Vec<float>>(bits<U32>(_mm256_cvtepu16_epi32(bits<__m128i>(x))) << 16);
#else
  return bits<Vec<float>>(convert<U32>(x) << 16);
#endif
}
/// The nearest bf16, to even; NaN stays NaN. AVX512-BF16 takes what is below the least normal
/// number for 0.
inline U16 round_to_bf16(Vec<float> x) {
#if defined(__AVX512BF16__)
  return bits<U16>(_mm512_cvtneps_pbh(x));
#else
  const auto u = bits<U32>(x);
  const auto number = x == x;  // NOLINT(misc-redundant-expression): a NaN is not
  const U32 rounded = (number ? u + 0x7fffu + ((u >> 16) & 1u) : u | 0x400000u) >> 16;
#if defined(__AVX512F__)  // GCC 12 takes the general conversion apart
  return bits<U16>(_mm512_maskz_cvtepi32_epi16(0xffff, bits<__m512i>(rounded)));
#else
  return convert<U16>(rounded);
#endif
#endif
}

/// Fetches a line that will be read soon and that the processor does not see coming: the next
/// row's.
inline void prefetch(const void* at) { __builtin_prefetch(at); }

/// Loads and stores as many elements as the vector has lanes, or `count` if that is fewer.
template <class V>
inline V load(const ElementOf<V>* from, int64_t count) {
  return load_raw<ElementOf<V>, lanes<ElementOf<V>>>(from, count);
}
template <class V>
inline V load(const Bf16* from, int64_t count) {
  return widen(load_raw<uint16_t, floats>(&from->bits, count));
}
template <class V>
inline void store(ElementOf<V>* to, V x, int64_t count, bool past_cache = false) {
  store_raw<ElementOf<V>, lanes<ElementOf<V>>>(to, x, count, past_cache);
}
template <class V>
inline void store(Bf16* to, V x, int64_t count, bool past_cache = false) {
  store_raw<uint16_t, floats>(&to->bits, round_to_bf16(x), count, past_cache);
}

/// Stores two vectors that follow each other.
template <class T, class V>
inline void store_pair(T* to, V first, V second, bool past_cache) {
#if defined(__AVX512BF16__)
  if constexpr (std::is_same_v<T, Bf16>) {
    const auto both = bits<VectorN<uint16_t, 2 * floats>>(_mm512_cvtne2ps_pbh(second, first));
    return store_raw<uint16_t, 2 * floats>(&to->bits, both, 2 * floats, past_cache);
  }
#endif
  constexpr int64_t width = lanes<ElementOf<V>>;
  store(to, first, width, past_cache);
  store(to + width, second, width, past_cache);
}

/// x with `fill` in the lanes from `count` on.
template <class V>
inline V fill_tail(V x, int64_t count, ElementOf<V> fill) {
  if (count >= lanes<ElementOf<V>>) return x;
  return iota<V>() < static_cast<ElementOf<V>>(count) ? x : broadcast<V>(fill);
}

/// x with `fill` in the first `count` lanes.
template <class V>
inline V fill_head(V x, int64_t count, ElementOf<V> fill) {
  if (count <= 0) return x;
  return iota<V>() < static_cast<ElementOf<V>>(count) ? broadcast<V>(fill) : x;
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
inline Vec<double> min(Vec<double> a, Vec<double> b) { return a < b ? a : b; }
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

/// combine(…) of all lanes: halves, halves of these, and so on.
template <class E, int n, class Combine>
inline E reduce_lanes(VectorN<E, n> x, const Combine& combine) {
  if constexpr (n == 1) {
    return x[0];
  } else {
    VectorN<E, n / 2> half[2];
    std::memcpy(half, &x, sizeof x);
    return reduce_lanes<E, n / 2>(combine(half[0], half[1]), combine);
  }
}
template <class V>
inline ElementOf<V> sum_lanes(V x) {
  return reduce_lanes<ElementOf<V>, lanes<ElementOf<V>>>(x, [](auto a, auto b) { return a + b; });
}
template <class V>
inline ElementOf<V> max_lanes(V x) {
  return reduce_lanes<ElementOf<V>, lanes<ElementOf<V>>>(
      x, [](auto a, auto b) { return a > b ? a : b; });
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

/// The numbers of a vector, for what kernels/normal.h computes.
struct FloatLanes {
  using Float = Vec<float>;
  using Word = U32;
  using Integer = VectorN<int32_t, floats>;
  static Float to_float(Integer x) { return convert<Float>(x); }
  static Float root(Float x) { return square_root(x); }
};

}  // namespace frugal::kernels::FRUGAL_SIMD
