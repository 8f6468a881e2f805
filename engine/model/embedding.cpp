#include "engine/model/embedding.h"

#include "engine/comm/parallel.h"
#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
#include "engine/model/saved.h"

namespace frugal {
namespace {

Dropout dropout_of(const Rank& rank) {
  return randomness::of_hidden(rank, randomness::Site::embedding, -1);
}

}  // namespace

Parameter make_token_table(Rank& rank, const std::string& name) {
  const ModelConfig& m = rank.config.model;
  return {rank, name, {m.vocabulary, m.hidden}, Sharding::rows, initial::weight()};
}

int64_t first_token(const Rank& rank) {
  return rank.tensor_group.rank() * (rank.config.model.vocabulary / rank.tensor_group.size());
}

InputEmbedding::InputEmbedding(Rank& rank)
    : table_(make_token_table(rank, token_table)),
      positions_(rank, "embedding.position", {rank.config.model.sequence, rank.config.model.hidden},
                 Sharding::replicated, initial::weight()) {
  positions_.gradient_is_partial = rank.config.sequence_parallel;
}

View InputEmbedding::local_positions(const Rank& rank, const View& positions) const {
  const int64_t count = parallel::local_sequence(rank);
  const int shard = rank.config.sequence_parallel ? rank.tensor_group.rank() : 0;
  return positions.sliced(0, shard * count, count);
}

Tensor InputEmbedding::forward(Rank& rank, const Tensor& ids, Saved& saved) const {
  const ModelConfig& m = rank.config.model;
  saved.ids = ids;
  const Tensor partial = rank.allocate({m.sequence, rank.config.micro_batch, m.hidden});
  rank.run(Embedding{ids.view().flat(), table_.view(), partial.view().matrix(), first_token(rank)});
  Tensor x = parallel::leave(rank, partial).wait();

  const Dropout dropout = dropout_of(rank);
  saved.mask = keep(mask_for(rank, {x.view().rows(), m.hidden}, dropout));
  rank.run(BiasDropoutAdd{.x = x.view().matrix(),
                          .bias = local_positions(rank, positions_.view()),
                          .residual = {},
                          .y = x.view().matrix(),
                          .mask = saved.mask,
                          .dropout = dropout});
  return x;
}

void InputEmbedding::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Tensor dx = rank.allocate(dy.shape());
  rank.run(BiasDropoutAddBackward{.dy = dy.view().matrix(),
                                  .mask = saved.mask,
                                  .dx = dx.view().matrix(),
                                  .dbias = local_positions(rank, positions_.grad()),
                                  .dropout = dropout_of(rank)});
  const Tensor all = parallel::enter(rank, dx).wait();
  rank.run(EmbeddingBackward{saved.ids.view().flat(), all.view().matrix(), table_.grad(),
                             first_token(rank)});
}

}  // namespace frugal
