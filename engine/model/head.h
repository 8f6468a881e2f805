#pragma once
#include "engine/model/embedding.h"
#include "engine/model/norm.h"

namespace frugal {

/// Final layer norm, output layer tied to the token embedding, and cross-entropy over a vocabulary
/// that is divided over the tensor-parallel group.
class OutputHead {
 public:
  struct Saved {
    Norm::Saved norm;
    Tensor input;       // [s/t, b, h], the output layer's
    Tensor logits;      // [s, b, v/t] in accumulation type
    Tensor labels;      // [s, b] i32, the caller's
    Tensor statistics;  // [t, s·b, 3]
  };

  explicit OutputHead(Rank& rank) : norm_(rank, "final_norm") {}

  /// x [s/t, b, h], labels [s, b] i32 (−100: not counted) → the loss of each token [s·b].
  /// `table` is the token embedding's, [v/t, h].
  Tensor forward(Rank& rank, const Parameter& table, const Tensor& x, const Tensor& labels,
                 Saved& saved) const;
  /// The gradient of x for a loss that is `scale` · Σ of the tokens' losses.
  Tensor backward(Rank& rank, const Parameter& table, float scale, Saved saved) const;

  ParameterList parameters() { return norm_.parameters(); }

 private:
  Norm norm_;
};

}  // namespace frugal
