#include "engine/model/gpt.h"

#include "engine/model/saved.h"

namespace frugal {

namespace {

/// With weight stashing the last stage uses a microbatch's update at once, when the first stage has
/// not computed its part of it yet: nothing can be tied.
bool ties_tables(const Rank& rank) { return rank.config.schedule != ScheduleKind::pipedream; }

}  // namespace

Gpt::Gpt(Rank& rank, const ModelPart& part) : part_(part) {
  const bool tied = ties_tables(rank);
  if (part.first) {
    embedding_.emplace(rank);
    embedding_->table().tied = tied && !part.last;
  } else if (part.last) {
    output_table_.emplace(make_token_table(rank, tied ? token_table : "output.token"));
    output_table_->tied = output_table_->is_copy = tied;
  }
  layers_.reserve(static_cast<size_t>(part.layers));
  for (int64_t i = 0; i < part.layers; ++i) {
    const int index = static_cast<int>(part.first_layer + i);
    const Ledger::Scope scope(rank.ledger, {index, -1});
    layers_.emplace_back(rank, index);
  }
  if (part.last) head_.emplace(rank);
}

Tensor Gpt::compute(Rank& rank, const Input& input, Saved& saved) const {
  Tensor x = part_.first ? embedding_->forward(rank, input.tokens, saved.embedding) : input.hidden;
  saved.layers.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) x = layers_[i].forward(rank, x, saved.layers[i]);
  return part_.last ? head_->forward(rank, table(), x, input.labels, saved.head) : x;
}

Tensor Gpt::forward(Rank& rank, const Input& input, Saved& saved) const {
  if (rank.recompute != Recompute::stage) return compute(rank, input, saved);
  saved.input = input;
  if (!part_.first) keep(input.hidden);
  Saved not_kept;
  return compute(rank, input, not_kept);
}

Tensor Gpt::backward(Rank& rank, Tensor dy, float scale, Saved saved) const {
  if (rank.recompute == Recompute::stage) compute(rank, saved.input, saved);
  saved.input = {};
  Tensor dx =
      part_.last ? head_->backward(rank, table(), scale, std::move(saved.head)) : std::move(dy);
  for (size_t i = layers_.size(); i-- > 0; saved.layers.pop_back())
    dx = layers_[i].backward(rank, dx, std::move(saved.layers[i]));
  if (!part_.first) return dx;
  embedding_->backward(rank, dx, std::move(saved.embedding));
  return {};
}

ParameterList Gpt::parameters() {
  ParameterList all;
  if (embedding_) all = embedding_->parameters();
  if (output_table_) all.push_back(&*output_table_);
  for (TransformerLayer& layer : layers_) all = join({all, layer.parameters()});
  return head_ ? join({all, head_->parameters()}) : all;
}

}  // namespace frugal
