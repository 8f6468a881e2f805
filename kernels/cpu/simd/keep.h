#pragma once
#include <algorithm>

#include "kernels/cpu/simd/simd.h"
#include "kernels/philox.h"
#include "kernels/view.h"

/// Dropout's decisions, one byte for each element: 1 = kept.
namespace frugal::kernels::FRUGAL_SIMD {

/// Rows are worked on in segments, so that their decisions fit a small buffer.
inline constexpr int64_t segment = 512;

/// Decides for local elements [first, first + count).
void generate_keep(const Dropout& dropout, int64_t first, int64_t count, uint8_t* keep);

/// The decisions from the mask if there is one, else made anew in `buffer`; null when there is
/// nothing to decide.
inline const uint8_t* keep_of(const View& mask, const Dropout& dropout, int64_t first,
                              int64_t count, uint8_t* buffer) {
  if (!mask.empty()) return mask.as<uint8_t>() + first;
  if (!dropout.active()) return nullptr;
  generate_keep(dropout, first, count, buffer);
  return buffer;
}

/// The decisions made anew, and written to the mask if there is one; null when there is nothing to
/// decide.
inline const uint8_t* decide_keep(const View& mask, const Dropout& dropout, int64_t first,
                                  int64_t count, uint8_t* buffer) {
  if (!mask.empty()) buffer = mask.as<uint8_t>() + first;
  if (mask.empty() && !dropout.active()) return nullptr;
  generate_keep(dropout, first, count, buffer);
  return buffer;
}

/// x after dropout.
template <class V>
inline V apply_keep(V x, const uint8_t* keep, int64_t j, int64_t count, ElementOf<V> scale) {
  if (keep == nullptr) return x;
#if defined(__AVX512F__)
  if constexpr (sizeof(ElementOf<V>) == sizeof(float)) {
    const auto bytes = bits<__m128i>(load_raw<uint8_t, floats>(keep + j, count));
    __asm__("" : "+v"(x));  // loaded by now: as a masked operand it would wait for the mask
    return _mm512_maskz_mul_ps(_mm_test_epi8_mask(bytes, bytes), x, broadcast<V>(scale));
  }
#endif
  return load_bytes<V>(keep + j, count) > 0 ? x * scale : V{};
}

/// f(j, count) for each segment of [0, n).
template <class F>
inline void segments(int64_t n, const F& f) {
  for (int64_t j = 0; j < n; j += segment) f(j, std::min(segment, n - j));
}

}  // namespace frugal::kernels::FRUGAL_SIMD
