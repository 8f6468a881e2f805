#include "kernels/cpu/simd/keep.h"

#include "kernels/cpu/simd/random_elements.h"

namespace frugal::kernels::FRUGAL_SIMD {

namespace {

using Halves = Vec<uint16_t>;

/// One byte for each half of a word: whether it is at least the threshold.
inline void decide(U32 words, Halves threshold, uint8_t* to) {
  const auto halves = bits<Halves>(words);
#if defined(__AVX512BW__)
  const auto kept = _mm512_cmpge_epu16_mask(bits<__m512i>(halves), bits<__m512i>(threshold));
  const __m256i decisions = _mm256_maskz_set1_epi8(kept, 1);
#else
  const auto decisions =
      convert<VectorN<uint8_t, 2 * floats> >(bits<Halves>(halves >= threshold) & 1);
#endif
  std::memcpy(to, &decisions, sizeof decisions);
}

}  // namespace

void generate_keep(const Dropout& dropout, int64_t first, int64_t count, uint8_t* keep) {
  if (!dropout.active()) {
    std::memset(keep, 1, static_cast<size_t>(count));
    return;
  }
  const auto threshold = broadcast<Halves>(dropout.threshold());
  random_elements<8>(dropout.stream, dropout.index, first, count, keep,
                     [=](const RandomWords& words, uint8_t* to) {
                       for (const U32 part : words.part) {
                         decide(part, threshold, to);
                         to += lanes<uint16_t>;
                       }
                     });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
