#include "kernels/cpu/simd/keep.h"

namespace frugal::FRUGAL_SIMD {
namespace {

// A 32-bit word in the lower half of each 64-bit lane; the upper halves hold anything, which the
// multiplication does not see. Lanes are consecutive groups.
using Words = Vec<uint64_t>;
constexpr int groups = lanes<uint64_t>;
constexpr int64_t elements = 4 * groups;

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

/// Decisions for the elements of `groups` groups from `first` on, in their order. See
/// Philox::generate for the scalar form.
inline VectorN<uint32_t, groups> decide(const RandomStream& stream, uint64_t threshold,
                                        uint64_t first) {
  Words count{};
  for (int i = 0; i < groups; ++i) count[i] = static_cast<uint64_t>(i);
  Words c0 = count + first, c1 = c0 >> 32;
  Words c2 = broadcast<Words>(stream.site), c3 = broadcast<Words>(stream.draw);
  auto key0 = static_cast<uint32_t>(stream.seed), key1 = static_cast<uint32_t>(stream.seed >> 32);
  const Words multiplier0 = broadcast<Words>(Philox::multiplier0);
  const Words multiplier1 = broadcast<Words>(Philox::multiplier1);
#pragma GCC unroll 10
  for (int round = 0; round < Philox::rounds; ++round) {
    const Words p0 = multiply_low_halves(c0, multiplier0);
    const Words p1 = multiply_low_halves(c2, multiplier1);
    c0 = (p1 >> 32) ^ c1 ^ uint64_t{key0};
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ uint64_t{key1};
    c3 = p0;
    key0 += Philox::weyl0;
    key1 += Philox::weyl1;
  }
  // The difference of two 32-bit numbers is negative, as 64 bits, exactly when the word is below.
  const auto dropped = [&](Words c) { return ((c & 0xffffffffu) - threshold) >> 63; };
  const Words bytes =
      dropped(c0) | dropped(c1) << 8 | dropped(c2) << 16 | dropped(c3) << 24;
  return convert<VectorN<uint32_t, groups>>(bytes ^ 0x01010101u);
}

/// For elements [at, at + count) of the serial run.
void decide_run(const RandomStream& stream, uint64_t threshold, uint64_t at, int64_t count,
                uint8_t* keep) {
  while (count > 0) {
    const auto skip = static_cast<int64_t>(at % 4);
    const auto decisions = decide(stream, threshold, at / 4);
    const int64_t n = std::min(count, elements - skip);
    if (n == elements) {
      std::memcpy(keep, &decisions, elements);
    } else {
      uint8_t bytes[elements];
      std::memcpy(bytes, &decisions, elements);
      for (int64_t i = 0; i < n; ++i) keep[i] = bytes[skip + i];
    }
    at += static_cast<uint64_t>(n);
    keep += n;
    count -= n;
  }
}

}  // namespace

void generate_keep(const Dropout& dropout, int64_t first, int64_t count, uint8_t* keep) {
  if (!dropout.active()) {
    std::memset(keep, 1, static_cast<size_t>(count));
    return;
  }
  const uint64_t threshold = dropout.threshold();
  const int64_t run = dropout.index.run;
  for (int64_t done = 0; done < count;) {
    const int64_t element = first + done;
    const int64_t n = std::min(count - done, run - element % run);
    decide_run(dropout.stream, threshold, static_cast<uint64_t>(dropout.index.at(element)), n,
               keep + done);
    done += n;
  }
}

}  // namespace frugal::FRUGAL_SIMD
