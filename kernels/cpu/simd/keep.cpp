#include "kernels/cpu/simd/keep.h"

namespace frugal::FRUGAL_SIMD {
namespace {

// A 32-bit word in the lower half of each 64-bit lane; the upper halves hold anything, which the
// multiplication does not see. Lanes are consecutive groups.
using Words = Vec<uint64_t>;
constexpr int groups = lanes<uint64_t>;
constexpr int64_t elements = int64_t{4} * groups;
constexpr int overlapped = vector_bytes == 64 ? 4 : 2;  // as many as the registers hold

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

/// The key of each round, so that a vector of it is one load.
struct Keys {
  uint64_t of_round[Philox::rounds][2];

  explicit Keys(uint64_t seed) {
    auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
    for (auto& round : of_round) {
      round[0] = key0;
      round[1] = key1;
      key0 += Philox::weyl0;
      key1 += Philox::weyl1;
    }
  }
};

/// Decisions for the elements of batches · groups groups from `first` on, in their order. See
/// Philox::generate for the scalar form. Batches are independent, so that their latencies overlap.
template <int batches>
inline void decide(const RandomStream& stream, const Keys& keys, uint64_t threshold, uint64_t first,
                   uint8_t* keep) {
  Words count{};
  for (int i = 0; i < groups; ++i) count[i] = static_cast<uint64_t>(i);
  const Words multiplier0 = broadcast<Words>(Philox::multiplier0);
  const Words multiplier1 = broadcast<Words>(Philox::multiplier1);
  Words c[batches][4];
  for (int i = 0; i < batches; ++i) {
    c[i][0] = count + (first + static_cast<uint64_t>(i * groups));
    c[i][1] = c[i][0] >> 32;
    c[i][2] = broadcast<Words>(stream.site);
    c[i][3] = broadcast<Words>(stream.draw);
  }
#pragma GCC unroll 10
  for (const auto& key : keys.of_round) {
    for (auto& [c0, c1, c2, c3] : c) {
      const Words p0 = multiply_low_halves(c0, multiplier0);
      const Words p1 = multiply_low_halves(c2, multiplier1);
      c0 = (p1 >> 32) ^ c1 ^ key[0];
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ key[1];
      c3 = p0;
    }
  }
  // The difference of two 32-bit numbers is negative, as 64 bits, exactly when the word is below.
  const auto dropped = [&](Words x) { return ((x & 0xffffffffu) - threshold) >> 63; };
  for (int i = 0; i < batches; ++i) {
    const Words bytes =
        dropped(c[i][0]) | dropped(c[i][1]) << 8 | dropped(c[i][2]) << 16 | dropped(c[i][3]) << 24;
    const auto decisions = convert<VectorN<uint32_t, groups>>(bytes ^ 0x01010101u);
    std::memcpy(keep + i * elements, &decisions, elements);
  }
}

/// For elements [at, at + count) of the serial run.
void decide_run(const RandomStream& stream, uint64_t threshold, uint64_t at, int64_t count,
                uint8_t* keep) {
  const Keys keys(stream.seed);
  while (count > 0) {
    const auto skip = static_cast<int64_t>(at % 4);
    int64_t n = overlapped * elements;
    if (skip == 0 && count >= n) {
      decide<overlapped>(stream, keys, threshold, at / 4, keep);
    } else {
      uint8_t bytes[elements];
      decide<1>(stream, keys, threshold, at / 4, bytes);
      n = std::min(count, elements - skip);
      std::memcpy(keep, bytes + skip, static_cast<size_t>(n));
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
