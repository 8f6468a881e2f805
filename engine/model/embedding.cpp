#include "engine/model/embedding.h"

#include <cmath>

#include "engine/model/dropout.h"
#include "engine/model/parallel.h"
#include "engine/model/table_names.h"

namespace frugal::engine {
namespace {

Dropout dropout_of(const Pass& pass) {
  return randomness::of_hidden(pass, randomness::Site::embedding, -1);
}

/// Rows of a hidden state or its mask, [s/t, b, h] as a matrix; empty of an empty one.
View rows_of(const View& x, const Positions::Piece& piece) {
  return x.empty() ? x : piece.of(x).matrix();
}

/// Rows of the table, [s, h], for a piece of positions.
View in_table(const View& positions, const Positions::Piece& piece) {
  return positions.sliced(0, piece.first, piece.count);
}

}  // namespace

Parameter make_token_table(Rank& rank, const std::string& name) {
  const ModelConfig& m = rank.config.model;
  return {rank, name, {m.vocabulary, m.hidden}, Sharding::rows, Initial::weight()};
}

int64_t first_token(const Rank& rank) {
  return rank.tensor_group.rank() * (rank.config.model.vocabulary / rank.tensor_group.size());
}

InputEmbedding::InputEmbedding(Rank& rank)
    : scale_(rank.config.model.scaled_embedding
                 ? std::sqrt(static_cast<float>(rank.config.model.hidden))
                 : 1.0F),
      table_(make_token_table(rank, token_table)) {
  const ModelConfig& m = rank.config.model;
  if (m.positions != PositionKind::learned) return;
  rank.parameters.begin_unit();  // a tied table is divided as it is at the other end
  positions_.emplace(rank, position_table, Shape{m.sequence, m.hidden}, Sharding::replicated,
                     Initial::weight());
  positions_->gradient_is_partial = rank.config.sequence_parallel;
}

Tensor InputEmbedding::forward(const Pass& outer, const Tensor& ids, Saved& saved) const {
  const Pass pass = outer.in(Part::embedding);
  const ModelConfig& m = pass.rank.config.model;
  saved.ids = ids;
  const Tensor partial = pass.allocate({ids.shape()[0], pass.rank.config.micro_batch, m.hidden});
  pass.run(Embedding{ids.view().flat(), table_.view(), partial.view().matrix(),
                     first_token(pass.rank), scale_});
  Tensor x = parallel::leave(pass, partial).wait();

  const Dropout dropout = dropout_of(pass);
  if (!positions_ && !dropout.active()) return x;
  saved.mask = keep(pass, mask_for(pass, x.shape(), dropout));
  // Of several pieces only without dropout, whose words are counted from the first row on.
  for (const Positions::Piece& piece : parallel::local_positions(pass.rank))
    pass.run(BiasDropoutAdd{.x = rows_of(x, piece),
                            .bias = positions_ ? in_table(positions_->view(), piece) : View(),
                            .residual = {},
                            .y = rows_of(x, piece),
                            .mask = rows_of(saved.mask, piece),
                            .dropout = dropout});
  return x;
}

void InputEmbedding::backward(const Pass& outer, const Tensor& dy, Saved saved) const {
  const Pass pass = outer.in(Part::embedding);
  Tensor dx = dy;
  const Dropout dropout = dropout_of(pass);
  if (positions_ || dropout.active()) {
    if (dropout.active()) dx = pass.allocate(dy.shape());
    for (const Positions::Piece& piece : parallel::local_positions(pass.rank))
      pass.run(BiasDropoutAddBackward{
          .dy = rows_of(dy, piece),
          .mask = rows_of(saved.mask, piece),
          .dx = rows_of(dx, piece),
          .dbias = positions_ ? in_table(positions_->grad(pass), piece) : View(),
          .dropout = dropout});
  }
  const Tensor all = parallel::enter(pass, dx).wait();
  const Tensor beside = table_.memory_beside_sum(pass);
  pass.run(EmbeddingBackward{saved.ids.view().flat(), all.view().matrix(), table_.grad(pass),
                             first_token(pass.rank), scale_});
}

}  // namespace frugal::engine
