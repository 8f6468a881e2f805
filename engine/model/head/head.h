#pragma once
#include "engine/model/embedding.h"
#include "engine/model/head/output_layer.h"
#include "engine/model/norm.h"

namespace frugal::engine {

/// Final norm, output layer, and cross-entropy.
class OutputHead {
 public:
  struct Saved {
    Norm::Saved norm;
    output_layer::Saved layer;
  };

  explicit OutputHead(Rank& rank) : norm_(rank, "final_norm") {}

  /// Computes what output_layer::forward() does, from before the norm.
  Tensor forward(const Pass& pass, const Parameter& table, const Tensor& x, const Tensor& labels,
                 std::optional<float> scale, Saved& saved) const {
    return output_layer::forward(pass, table, norm_.forward(pass, x, saved.norm), labels, scale,
                                 saved.layer);
  }
  /// The gradient of x for a loss that is `scale` · Σ of the tokens' losses. The output layer
  /// completes the gradients of `completed`: the table's, where nobody else has it.
  Tensor backward(const Pass& pass, const Parameter& table, const ParameterList& completed,
                  float scale, Saved saved) const {
    Tensor dnormed =
        output_layer::backward(pass, table, scale, std::move(saved.layer));  // [s/t, b, h]
    step_alone(pass, completed);
    return norm_.backward(pass, std::move(dnormed), {}, std::move(saved.norm));
  }

  ParameterList parameters() { return norm_.parameters(); }

 private:
  Norm norm_;
};

}  // namespace frugal::engine
