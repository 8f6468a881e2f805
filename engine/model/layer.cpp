#include "engine/model/layer.h"

#include "engine/model/saved.h"

namespace frugal {
namespace {

std::string prefix(int index) { return "layers." + std::to_string(index); }

}  // namespace

TransformerLayer::TransformerLayer(Rank& rank, int index)
    : index_(index),
      attention_norm_(rank, prefix(index) + ".attention_norm"),
      attention_(rank, prefix(index) + ".attention", index),
      mlp_norm_(rank, prefix(index) + ".mlp_norm"),
      mlp_(rank, prefix(index) + ".mlp", index) {}

Tensor TransformerLayer::compute(Rank& rank, const Tensor& x, Saved& saved) const {
  Tensor normed = attention_norm_.forward(rank, x, saved.attention_norm);
  const Tensor middle = attention_.forward(rank, normed, x, saved.attention);
  normed = mlp_norm_.forward(rank, middle, saved.mlp_norm);
  return mlp_.forward(rank, normed, middle, saved.mlp);
}

Tensor TransformerLayer::forward(Rank& rank, const Tensor& x, Saved& saved) const {
  const Ledger::Scope scope(rank.ledger, {index_, rank.ledger.place().microbatch});
  saved.input = keep(x);
  if (rank.recompute != Recompute::full) return compute(rank, x, saved);
  Saved not_kept;
  return compute(rank, x, not_kept);
}

Tensor TransformerLayer::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Ledger::Scope scope(rank.ledger, {index_, rank.ledger.place().microbatch});
  if (rank.recompute == Recompute::full) compute(rank, saved.input, saved);
  Tensor d = mlp_.backward(rank, dy, std::move(saved.mlp));
  const Tensor dmiddle = mlp_norm_.backward(rank, d, dy, std::move(saved.mlp_norm));
  d = attention_.backward(rank, dmiddle, std::move(saved.attention));
  return attention_norm_.backward(rank, d, dmiddle, std::move(saved.attention_norm));
}

ParameterList TransformerLayer::parameters() {
  return join({attention_norm_.parameters(), attention_.parameters(), mlp_norm_.parameters(),
               mlp_.parameters()});
}

}  // namespace frugal
