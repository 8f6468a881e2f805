#pragma once

#include "engine/memory/tensor.h"

namespace frugal::engine {

/// Consecutive rows of a sequence, or of a table of the vocabulary.
struct MiniSequence {
  int64_t begin = 0, count = 0;

  /// Rows of a tensor [s, …]; empty of an empty one.
  Tensor of(const Tensor& x) const { return x.empty() ? Tensor() : x.with_view(of(x.view())); }
  View of(const View& x) const { return x.sliced(0, begin, count); }
};

/// Part i of `parts` of ⌊rows/parts⌋ rows each; the last takes the remainder, too (mst2024,
/// algorithm 1).
inline MiniSequence mini_sequence(int64_t rows, int64_t parts, int64_t i) {
  const int64_t each = rows / parts;
  return {i * each, i + 1 < parts ? each : rows - i * each};
}

/// Parts that differ by at most one row, so that more of them are never larger.
inline MiniSequence balanced_part(int64_t rows, int64_t parts, int64_t i) {
  const int64_t begin = i * rows / parts, end = (i + 1) * rows / parts;
  return {begin, end - begin};
}

}  // namespace frugal::engine
