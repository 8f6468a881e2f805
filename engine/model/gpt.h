#pragma once
#include "engine/model/head.h"
#include "engine/model/layer.h"

namespace frugal {

/// A GPT on one rank: embedding, L transformer layers, output head.
class Gpt {
 public:
  struct Saved {
    InputEmbedding::Saved embedding;
    std::vector<TransformerLayer::Saved> layers;
    OutputHead::Saved head;
  };

  explicit Gpt(Rank& rank);

  /// tokens, labels [s, b] i32 → the loss of each token [s·b].
  Tensor forward(Rank& rank, const Tensor& tokens, const Tensor& labels, Saved& saved) const;
  /// Adds the gradients of `scale` · Σ of the tokens' losses to the parameters' gradients.
  void backward(Rank& rank, float scale, Saved saved) const;

  ParameterList parameters();

 private:
  InputEmbedding embedding_;
  std::vector<TransformerLayer> layers_;
  OutputHead head_;
};

}  // namespace frugal
