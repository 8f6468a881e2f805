#pragma once
#include <optional>
#include <vector>

#include "engine/model/parameter.h"

/// The output layer, and cross-entropy over a vocabulary that is divided over the tensor-parallel
/// group.
///
/// By default all logits exist from the forward to the backward pass. In mini-sequences (mst2024,
/// algorithm 2) those of one part of the sequence exist at a time: the forward pass computes the
/// part's loss, its logits' gradient, and what this adds to the gradients of the input and the
/// weights. With the vocabulary in parts besides, those of a part of both exist: each is computed
/// once for the sums of exponentials and once again for the gradient.
///
/// Narrow logits (RunConfig::narrow_logits) of a rank that has the whole vocabulary are read once:
/// the forward pass computes the losses and leaves the gradient in the logits' place.
namespace frugal::engine::output_layer {

/// Sees a part of the logits of a pass, [rows, columns], which begins at this row of all tokens and
/// this column of the vocabulary.
using OnLogits =
    std::function<void(const Pass&, const View& logits, int64_t first_row, int64_t first_column)>;

/// Tokens that are to be told.
struct Target {
  Tensor labels;  // [s, b] i32 (−100: not counted)
  /// The backward pass is for `scale` · Σ of the tokens' losses; none: there is no backward pass.
  std::optional<float> scale{};
  const OnLogits* on_logits = nullptr;  ///< sees logits of the forward pass; null: nobody does

  void see(const Pass& pass, const View& logits, int64_t first_row, int64_t first_column) const {
    if (on_logits != nullptr) (*on_logits)(pass, logits, first_row, first_column);
  }
};

struct Saved {
  Tensor input;                 // [s/t, b, h]
  Tensor logits;                // [s, b, v/t], or in one pass their gradient
  Extras extras;                // [s, b, v/t] each
  Tensor labels;                // [s, b] i32, the caller's
  Tensor statistics;            // [t, s·b, 3]; empty in one pass
  Tensor dinput;                // [s/t, b, h]: in parts, the input's gradient, and nothing else
  std::vector<Tensor> dinputs;  // [rows, b, h] of each part, where a program adds them up later
};

/// x [s/t, b, h] → the loss of each token [s·b]. `table` [v/t, h] is the token embedding's or the
/// output layer's own.
Tensor forward(const Pass& outer, const Parameter& table, const Tensor& x, const Target& target,
               Saved& saved);
/// The gradient of x for a loss that is `scale` · Σ of the tokens' losses.
Tensor backward(const Pass& outer, const Parameter& table, float scale, Saved saved);

}  // namespace frugal::engine::output_layer
