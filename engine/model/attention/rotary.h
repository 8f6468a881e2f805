#pragma once
#include <vector>

#include "engine/pass.h"

namespace frugal::engine {

/// Angles by which the pairs of a head turn from one position to the next: [d/2]. Su et al. 2021
/// (arXiv:2104.09864), equation 15. With bands, as Llama 3.1 has them: frequencies of less than
/// `low` turns within the original length are divided by the factor, those of more than `high` are
/// not, and those between are mixed in proportion to their turns.
std::vector<double> rotary_frequencies(const RotaryConfig& config, int64_t head_size);

/// Rotated queries and keys, of models that have them.
class RotaryPositions {
 public:
  explicit RotaryPositions(const RankAt& at);

  /// Turns all queries and keys of qkv [s or s/c, b, groups · (G + 2) · d] in place, by their
  /// positions in the whole sequence; back where `inverse`. Nothing in a model with learned
  /// positions.
  void apply(const Pass& pass, const View& qkv, bool inverse) const;

 private:
  Tensor frequencies_;  // [d/2] in accumulation type; empty with learned positions
};

}  // namespace frugal::engine
