#pragma once
#include <optional>

#include "engine/model/mini_sequence.h"
#include "engine/model/parameter.h"

namespace frugal::engine {

/// The output layer and cross-entropy over a part of the sequence and a part of the vocabulary at a
/// time (RunConfig::head_mini_sequences(), head_tiles).
class HeadParts {
 public:
  /// `scale` as OutputHead::forward() has it.
  HeadParts(const Pass& pass, const Parameter& table, std::optional<float> scale);

  struct Result {
    Tensor losses;  // [s·b] in accumulation type
    Tensor dinput;  // [s, b, h], of the partial sums of this rank's vocabulary; empty without scale
    std::vector<Tensor> dinputs;  // the same of each part, in its place, where a program has them
  };
  /// x [s, b, h], labels [s, b]. Adds to the table's gradient.
  Result run(const Tensor& x, const Tensor& labels) const;

 private:
  /// Views of one part of the sequence.
  struct Part {
    View x;       // [rows, h]
    View labels;  // [rows]
    View losses;  // [rows]
    View dx;      // [rows, h], empty without scale
    int64_t first_row;
  };
  void compute(const Part& part, const GradientSum& dtable) const;
  /// Logits of a part of the vocabulary: [rows, tile(i).count].
  Tensor logits(const Part& part, int64_t i) const;
  Tensor new_logits(const Part& part, int64_t i) const;
  Tensor statistics(const Part& part, Tensor& last) const;
  void add_gradients(const Part& part, int64_t i, const View& dlogits, const View& dx,
                     const GradientSum& dtable) const;
  /// Rows of the rank's table that are a part of the vocabulary.
  MiniSequence tile(int64_t i) const;
  /// First token of it.
  int64_t first(int64_t i) const;

  const Pass& pass_;
  const Parameter& table_;
  const std::optional<float> scale_;
  const int64_t tiles_;
};

}  // namespace frugal::engine
