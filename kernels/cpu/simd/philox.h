#pragma once
#include <algorithm>

#include "kernels/cpu/simd/simd.h"
#include "kernels/philox.h"

/// Random words for vectors of groups. See Philox::generate for the scalar form.
namespace frugal::FRUGAL_SIMD {

// A 32-bit word in the lower half of each 64-bit lane; the upper halves hold anything, which the
// multiplication does not see.
using Words = Vec<uint64_t>;

inline Words multiply_low_halves(Words a, Words b) {
#if defined(__AVX512F__)
  return bits<Words>(_mm512_maskz_mul_epu32(0xff, bits<__m512i>(a), bits<__m512i>(b)));
#elif defined(__AVX2__)
  return bits<Words>(_mm256_mul_epu32(bits<__m256i>(a), bits<__m256i>(b)));
#elif defined(__SSE2__)
  return bits<Words>(_mm_mul_epu32(bits<__m128i>(a), bits<__m128i>(b)));
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/// The lower halves of both by turns.
inline U32 interleave_low_halves(Words even, Words odd) {
#if defined(__AVX512F__)
  return bits<U32>(
      _mm512_mask_shuffle_epi32(bits<__m512i>(even), 0xaaaa, bits<__m512i>(odd), _MM_PERM_CCAA));
#else
  return bits<U32>((even & 0xffffffffu) | odd << 32);
#endif
}

/// The four words of as many groups as a vector has lanes, one word of each in every vector.
struct GroupWords {
  U32 word[4];
};
inline constexpr int64_t group_elements = int64_t{4} * floats;

/// The groups whose numbers have the same upper half. What their first two rounds have in common
/// is computed once.
class Groups {
 public:
  Groups(const RandomStream& stream, uint32_t high) {
    auto key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
    const auto next = [&] { key0 += Philox::weyl0, key1 += Philox::weyl1; };
    const uint64_t p1 = uint64_t{Philox::multiplier1} * stream.site;
    const uint32_t c0 = static_cast<uint32_t>(p1 >> 32) ^ high ^ key0;
    first_ = stream.draw ^ key1;
    next();
    const uint64_t p0 = uint64_t{Philox::multiplier0} * c0;
    second_[0] = static_cast<uint32_t>(p1) ^ key0;
    second_[1] = static_cast<uint32_t>(p0 >> 32) ^ key1;
    last_ = static_cast<uint32_t>(p0);
    next();
    for (auto& key : keys_) {
      key[0] = key0;
      key[1] = key1;
      next();
    }
  }

  /// Vectors of consecutive groups, the first of which has the lower half `low`. They are computed
  /// together, so that latencies overlap.
  template <int vectors>
  void generate(uint32_t low, GroupWords (&result)[vectors]) const {
    Words even{};
    for (int i = 0; i < lanes<uint64_t>; ++i) even[i] = 2 * static_cast<uint64_t>(i);
    const auto multiplier0 = broadcast<Words>(Philox::multiplier0);
    const auto multiplier1 = broadcast<Words>(Philox::multiplier1);
    Words c[2 * vectors][4];
    for (int i = 0; i < 2 * vectors; ++i) {
      const auto from =
          uint64_t{low} + static_cast<uint64_t>(i / 2) * floats + static_cast<uint64_t>(i % 2);
      const Words p0 = multiply_low_halves(even + from, multiplier0);
      const Words p1 = multiply_low_halves((p0 >> 32) ^ first_, multiplier1);
      c[i][0] = (p1 >> 32) ^ second_[0];
      c[i][1] = p1;
      c[i][2] = p0 ^ second_[1];
      c[i][3] = broadcast<Words>(last_);
    }
#pragma GCC unroll 8
    for (const auto& key : keys_) {
      for (auto& [c0, c1, c2, c3] : c) {
        const Words p0 = multiply_low_halves(c0, multiplier0);
        const Words p1 = multiply_low_halves(c2, multiplier1);
        c0 = (p1 >> 32) ^ c1 ^ key[0];
        c1 = p1;
        c2 = (p0 >> 32) ^ c3 ^ key[1];
        c3 = p0;
      }
    }
    for (int i = 0; i < vectors; ++i) {
      for (int k = 0; k < 4; ++k) {
        result[i].word[k] = interleave_low_halves(c[2 * i][k], c[2 * i + 1][k]);
      }
    }
  }

 private:
  uint64_t first_, second_[2], last_;
  uint64_t keys_[Philox::rounds - 2][2];
};

/// Elements [at, at + count) of the serial run: make(words, to) writes group_elements of them.
template <class T, class F>
void random_run(const RandomStream& stream, uint64_t at, int64_t count, T* to, const F& make) {
  constexpr int together = vector_bytes == 64 ? 2 : 1;  // as many as the registers hold
  while (count > 0) {
    const uint64_t high = at / 4 >> 32;
    const Groups groups(stream, static_cast<uint32_t>(high));
    int64_t left = std::min(count, static_cast<int64_t>(((high + 1) << 34) - at));
    count -= left;
    while (left > 0) {
      const auto low = static_cast<uint32_t>(at / 4);
      const auto skip = static_cast<int64_t>(at % 4);
      int64_t n = together * group_elements;
      if (skip == 0 && left >= n) {
        GroupWords words[together];
        groups.generate(low, words);
        for (int i = 0; i < together; ++i) make(words[i], to + i * group_elements);
      } else {
        GroupWords words[1];
        groups.generate(low, words);
        T made[group_elements];
        make(words[0], made);
        n = std::min(left, group_elements - skip);
        std::copy_n(made + skip, n, to);
      }
      at += static_cast<uint64_t>(n);
      to += n;
      left -= n;
    }
  }
}

/// The same for local elements [first, first + count).
template <class T, class F>
void random_elements(const RandomStream& stream, const GlobalIndex& index, int64_t first,
                     int64_t count, T* to, const F& make) {
  for (int64_t done = 0; done < count;) {
    const int64_t element = first + done;
    const int64_t n = std::min(count - done, index.run - element % index.run);
    random_run(stream, static_cast<uint64_t>(index.at(element)), n, to + done, make);
    done += n;
  }
}

}  // namespace frugal::FRUGAL_SIMD
