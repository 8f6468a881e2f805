#pragma once
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

namespace frugal::kernels {

/// Places of a local, contiguous tensor's elements in the serial run's tensor: local runs of `run`
/// elements lie `stride` apart there, the first at `offset`. Randomness is independent of a
/// tensor's sharding through them.
struct GlobalIndex {
  int64_t offset = 0;
  int64_t run = std::numeric_limits<int64_t>::max();
  int64_t stride = 0;

  constexpr int64_t at(int64_t element) const {
    return offset + element / run * stride + element % run;
  }
};

/// Names one stream of random words: word w of group g is Philox4x32-10 with key = seed (low word
/// first) and counter = {g low, g high, site, draw}. Normal numbers take a word each, element i
/// word i mod 4 of group i / 4; dropout takes half a word each, see Dropout.
struct RandomStream {
  uint64_t seed = 0;
  uint32_t site = 0;  ///< which tensor of the model
  uint32_t draw = 0;  ///< which microbatch of the whole run
};

/// Dropout of the elements whose 16 random bits are below probability · 2^16; kept ones are scaled,
/// so that the expectation is exactly the input's. Element i takes half i mod 2 (the low one first)
/// of word i mod 8 / 2 of group i / 8.
struct Dropout {
  float probability = 0;  ///< possible(); rounded to a multiple of 2^−16
  RandomStream stream;
  GlobalIndex index;

  /// 0, or what rounding leaves between 0 and 1.
  static bool possible(float probability) {
    return probability == 0 || (probability >= 0x1p-17F && probability < 1 - 0x1p-17F);
  }
  bool active() const { return probability > 0; }
  /// An element is kept when its bits are at least this.
  uint16_t threshold() const {
    assert(possible(probability));
    return static_cast<uint16_t>(std::lround(probability * 0x1p16F));
  }
  double keep_scale() const { return 0x1p16 / (0x1p16 - threshold()); }
};

}  // namespace frugal::kernels
