#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

namespace frugal {

/// Where the elements of a local, contiguous tensor stand in the serial run's tensor: local runs of
/// `run` elements lie `stride` apart there, the first at `offset`. This is what makes randomness
/// independent of how a tensor is sharded.
struct GlobalIndex {
  int64_t offset = 0;
  int64_t run = std::numeric_limits<int64_t>::max();
  int64_t stride = 0;

  int64_t at(int64_t element) const { return offset + element / run * stride + element % run; }
};

/// Names one stream of random words: word w of element group g is Philox4x32-10 with
/// key = seed (low word first) and counter = {g low, g high, site, draw}; element i takes word
/// i mod 4 of group i / 4.
struct RandomStream {
  uint64_t seed = 0;
  uint32_t site = 0;  ///< which tensor of the model
  uint32_t draw = 0;  ///< which microbatch of the whole run
};

/// Dropout of the elements whose word is below probability · 2^32; kept ones are scaled.
struct Dropout {
  float probability = 0;  ///< in [0, 1)
  RandomStream stream;
  GlobalIndex index;

  bool active() const { return probability > 0; }
  /// An element is kept when its word is at least this.
  uint32_t threshold() const {
    return static_cast<uint32_t>(std::llround(static_cast<double>(probability) * 4294967296.0));
  }
  float keep_scale() const { return 1.0F / (1.0F - probability); }
};

}  // namespace frugal
