#include "kernels/cpu/simd/keep.h"

#include "kernels/cpu/simd/philox.h"

namespace frugal::FRUGAL_SIMD {

void generate_keep(const Dropout& dropout, int64_t first, int64_t count, uint8_t* keep) {
  if (!dropout.active()) {
    std::memset(keep, 1, static_cast<size_t>(count));
    return;
  }
  const U32 threshold = broadcast<U32>(dropout.threshold());
  const auto decide = [=](const GroupWords& words, uint8_t* to) {
    U32 decisions{};  // of a group in each lane, one byte for each word
    for (int k = 0; k < 4; ++k) {
      decisions |= words.word[k] >= threshold ? broadcast<U32>(1u << 8 * k) : U32{};
    }
    std::memcpy(to, &decisions, sizeof decisions);
  };
  random_elements(dropout.stream, dropout.index, first, count, keep, decide);
}

}  // namespace frugal::FRUGAL_SIMD
