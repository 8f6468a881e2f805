#pragma once
#include <algorithm>
#include <utility>

#include "kernels/cpu/simd/simd.h"
#include "kernels/philox.h"

/// Random words, vectors of them at once (Philox::generate is the scalar form), and elements made
/// of them where the serial run has them.
namespace frugal::kernels::FRUGAL_SIMD {

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

/// Consecutive words of a stream: of so many groups, four of each.
struct RandomWords {
  U32 part[2];
};
inline constexpr int64_t groups_at_once = lanes<uint64_t>;

/// Lower, or upper, 64-bit lane of every pair, from both by turns.
template <int upper, int... i>
inline Words pick(Words a, Words b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (i / 2 * 2 + upper + i % 2 * lanes<uint64_t>)...);
}
template <int upper>
inline U32 pick(U32 a, U32 b) {
  return bits<U32>(pick<upper>(bits<Words>(a), bits<Words>(b),
                               std::make_integer_sequence<int, lanes<uint64_t>>()));
}

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

  /// Words of consecutive groups, the first of which has the lower half `low`. `count` times as
  /// many are computed together, so that latencies overlap.
  template <int count>
  void generate(uint32_t low, RandomWords (&result)[count]) const {
    const auto multiplier0 = broadcast<Words>(Philox::multiplier0);
    const auto multiplier1 = broadcast<Words>(Philox::multiplier1);
    // A pair of lanes has a group of the first half and one of the second, for pick().
    auto number = iota<Words>();
    number = (number >> 1) + (number & 1u) * (groups_at_once / 2) + low;
    Words c[count][4];
    for (auto& [c0, c1, c2, c3] : c) {
      const Words p0 = multiply_low_halves(number, multiplier0);
      const Words p1 = multiply_low_halves((p0 >> 32) ^ first_, multiplier1);
      c0 = (p1 >> 32) ^ second_[0];
      c1 = p1;
      c2 = p0 ^ second_[1];
      c3 = broadcast<Words>(last_);
      number += groups_at_once;
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
    for (int i = 0; i < count; ++i) {
      const U32 w01 = interleave_low_halves(c[i][0], c[i][1]);
      const U32 w23 = interleave_low_halves(c[i][2], c[i][3]);
      result[i] = {{pick<0>(w01, w23), pick<1>(w01, w23)}};
    }
  }

 private:
  uint64_t first_, second_[2], last_;
  uint64_t keys_[Philox::rounds - 2][2];
};

/// Elements of a stream, of which a group makes `per_group`, in order: make(words, to) writes those
/// of RandomWords.
template <int per_group, class T, class F>
class RandomRun {
 public:
  /// Elements [at, at + count) of the serial run, none of which has a group number with another
  /// upper half than the first.
  RandomRun(const RandomStream& stream, uint64_t at, int64_t count, T* to, const F& make)
      : groups_(stream, static_cast<uint32_t>(at / per_group >> 32)),
        at_(at),
        left_(count),
        to_(to),
        make_(make) {}

  void run() {
    if (const auto skip = static_cast<int64_t>(at_ % per_group); skip != 0) part(skip);
    whole<most_together>();
    if (left_ > 0) part(0);
  }

 private:
  static constexpr int64_t at_once = groups_at_once * per_group;
  // As many as were fastest, though the state of 8 takes all registers.
  static constexpr int most_together = vector_bytes == 64 ? 8 : 2;

  void advance(int64_t n) {
    at_ += static_cast<uint64_t>(n);
    to_ += n;
    left_ -= n;
  }

  template <int together>
  void whole() {
    for (; left_ >= together * at_once; advance(together * at_once)) {
      RandomWords words[together];
      groups_.generate(static_cast<uint32_t>(at_ / per_group), words);
      for (int i = 0; i < together; ++i) make_(words[i], to_ + i * at_once);
    }
    if constexpr (together > 1) whole<together / 2>();
  }

  /// Fewer than are made at once, without the first `skip` of them.
  void part(int64_t skip) {
    RandomWords words[1];
    groups_.generate(static_cast<uint32_t>(at_ / per_group), words);
    T made[at_once];
    make_(words[0], made);
    const int64_t n = std::min(left_, at_once - skip);
    std::copy_n(made + skip, n, to_);
    advance(n);
  }

  Groups groups_;
  uint64_t at_;
  int64_t left_;
  T* to_;
  const F& make_;
};

/// Elements [at, at + count) of the serial run.
template <int per_group, class T, class F>
void random_run(const RandomStream& stream, uint64_t at, int64_t count, T* to, const F& make) {
  while (count > 0) {
    constexpr uint64_t elements = (uint64_t{1} << 32) * per_group;  // of an upper half
    const auto n = std::min(count, static_cast<int64_t>(elements - at % elements));
    RandomRun<per_group, T, F>(stream, at, n, to, make).run();
    at += static_cast<uint64_t>(n);
    to += n;
    count -= n;
  }
}

/// Elements of the serial run that are the local ones [first, first + count).
template <int per_group, class T, class F>
void random_elements(const RandomStream& stream, const GlobalIndex& index, int64_t first,
                     int64_t count, T* to, const F& make) {
  for (int64_t done = 0; done < count;) {
    const int64_t element = first + done;
    const int64_t n = std::min(count - done, index.run - element % index.run);
    random_run<per_group>(stream, static_cast<uint64_t>(index.at(element)), n, to + done, make);
    done += n;
  }
}

}  // namespace frugal::kernels::FRUGAL_SIMD
