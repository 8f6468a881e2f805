#include "engine/model/layer.h"

namespace frugal {
namespace {

std::string prefix(int index) { return "layers." + std::to_string(index); }

/// block + residual, in the block's place.
Tensor add(Rank& rank, Tensor block, const Tensor& residual) {
  const View y = block.view().matrix();
  rank.run(BiasDropoutAdd{.x = y, .residual = residual.view().matrix(), .y = y, .dropout = {}});
  return block;
}

}  // namespace

TransformerLayer::TransformerLayer(Rank& rank, int index)
    : index_(index),
      attention_norm_(rank, prefix(index) + ".attention_norm"),
      attention_(rank, prefix(index) + ".attention", index),
      mlp_norm_(rank, prefix(index) + ".mlp_norm"),
      mlp_(rank, prefix(index) + ".mlp", index) {
  if (!rank.config.model.post_norms) return;
  attention_post_norm_.emplace(rank, prefix(index) + ".attention_post_norm");
  mlp_post_norm_.emplace(rank, prefix(index) + ".mlp_post_norm");
}

TransformerLayer::Middle TransformerLayer::attend(Rank& rank, const Tensor& x, Saved& saved) const {
  Tensor normed = attention_norm_.forward(rank, x, saved.attention_norm);
  Middle middle;
  if (attention_post_norm_) {
    const Tensor block = attention_.forward(rank, normed, {}, saved.attention);
    middle.residual =
        add(rank, attention_post_norm_->forward(rank, block, saved.attention_post_norm), x);
  } else {
    middle.residual = attention_.forward(rank, normed, x, saved.attention);
  }
  normed.release();
  middle.normed = mlp_norm_.forward(rank, middle.residual, saved.mlp_norm);
  return middle;
}

Tensor TransformerLayer::compute(Rank& rank, const Tensor& x, Saved& saved) const {
  const Middle middle = attend(rank, x, saved);
  if (!mlp_post_norm_) return mlp_.forward(rank, middle.normed, middle.residual, saved.mlp);
  const Tensor block = mlp_.forward(rank, middle.normed, {}, saved.mlp);
  return add(rank, mlp_post_norm_->forward(rank, block, saved.mlp_post_norm), middle.residual);
}

void TransformerLayer::recompute(Rank& rank, const Tensor& x, Saved& saved) const {
  if (Mlp::recomputes_itself(rank) && !mlp_post_norm_)
    saved.mlp = Mlp::remembered(attend(rank, x, saved).normed);
  else
    compute(rank, x, saved);
}

Tensor TransformerLayer::forward(Rank& rank, const Tensor& x, Saved& saved) const {
  const Ledger::Scope scope(rank.ledger, {index_, rank.ledger.place().microbatch});
  if (rank.recompute != Recompute::full) return compute(rank, x, saved);
  saved.input.store(rank, x);
  Saved not_kept;
  return compute(rank, x, not_kept);
}

Tensor TransformerLayer::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Ledger::Scope scope(rank.ledger, {index_, rank.ledger.place().microbatch});
  if (rank.recompute == Recompute::full) recompute(rank, saved.input.take(rank), saved);
  Tensor d =
      mlp_post_norm_ ? mlp_post_norm_->backward(rank, dy, {}, std::move(saved.mlp_post_norm)) : dy;
  d = mlp_.backward(rank, d, std::move(saved.mlp));
  const Tensor dmiddle = mlp_norm_.backward(rank, d, dy, std::move(saved.mlp_norm));
  d = attention_post_norm_
          ? attention_post_norm_->backward(rank, dmiddle, {}, std::move(saved.attention_post_norm))
          : dmiddle;
  d = attention_.backward(rank, d, std::move(saved.attention));
  return attention_norm_.backward(rank, d, dmiddle, std::move(saved.attention_norm));
}

ParameterList TransformerLayer::parameters() {
  ParameterList all = join({attention_norm_.parameters(), attention_.parameters()});
  if (attention_post_norm_) all = join({all, attention_post_norm_->parameters()});
  all = join({all, mlp_norm_.parameters(), mlp_.parameters()});
  return mlp_post_norm_ ? join({all, mlp_post_norm_->parameters()}) : all;
}

}  // namespace frugal
