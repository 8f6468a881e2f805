#include "engine/model/gpt.h"

namespace frugal {

Gpt::Gpt(Rank& rank) : embedding_(rank), head_(rank) {
  layers_.reserve(static_cast<size_t>(rank.config.model.layers));
  for (int i = 0; i < rank.config.model.layers; ++i) {
    const Ledger::Scope scope(rank.ledger, {i, -1});
    layers_.emplace_back(rank, i);
  }
}

Tensor Gpt::forward(Rank& rank, const Tensor& tokens, const Tensor& labels, Saved& saved) const {
  Tensor x = embedding_.forward(rank, tokens, saved.embedding);
  saved.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i].forward(rank, x, saved.layers[i]);
  return head_.forward(rank, embedding_, x, labels, saved.head);
}

void Gpt::backward(Rank& rank, float scale, Saved saved) const {
  Tensor dx = head_.backward(rank, embedding_, scale, std::move(saved.head));
  for (size_t i = layers_.size(); i-- > 0; saved.layers.pop_back())
    dx = layers_[i].backward(rank, dx, std::move(saved.layers[i]));
  embedding_.backward(rank, dx, std::move(saved.embedding));
}

ParameterList Gpt::parameters() {
  ParameterList all = embedding_.parameters();
  for (TransformerLayer& layer : layers_) all = join({all, layer.parameters()});
  return join({all, head_.parameters()});
}

}  // namespace frugal
