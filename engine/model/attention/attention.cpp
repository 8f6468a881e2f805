#include "engine/model/attention/attention.h"

#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
#include "engine/model/saved.h"

namespace frugal {
namespace {

/// Of the first token in attention's tensors, which have the whole sequence of a context part.
int64_t first_position(const Rank& rank) {
  const RunConfig& c = rank.config;
  return rank.groups.context.rank() * c.group_sequence();
}

}  // namespace

Attention::Attention(Rank& rank, const std::string& name, int layer)
    : layer_(layer),
      qkv_(rank, name + ".qkv",
           {.in = rank.config.model.hidden,
            .out = rank.config.model.qkv_size(),
            .bias = rank.config.model.bias != BiasKind::none},
           initial::weight()),
      positions_(rank),
      core_(AttentionCore::make(rank, layer)),
      projection_(rank, name + ".projection",
                  {.in = rank.config.model.query_size(),
                   .out = rank.config.model.hidden,
                   .bias = rank.config.model.bias == BiasKind::all},
                  initial::residual_weight(rank.config.model)) {}

Tensor Attention::forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const {
  saved.input = keep(x);
  Tensor qkv = qkv_.forward(rank, x);
  positions_.apply(rank, qkv, first_position(rank), false);
  AttentionCore::Saved core;
  saved.context = keep(core_->forward(rank, std::move(qkv), core));
  saved.core = core.kept(rank.recompute == Recompute::selective);
  core = {};
  const Tensor projected = projection_.forward(rank, saved.context);
  const Dropout dropout = randomness::of_hidden(rank, randomness::Site::attention_output, layer_);
  saved.mask = keep(mask_for(rank, x.shape(), dropout));
  Tensor y = rank.allocate(x.shape());
  add_dropped(rank, projected, projection_.bias(), residual, saved.mask, y, dropout);
  return y;
}

Tensor Attention::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Tensor dprojected =
      undo_dropped(rank, dy, saved.mask, projection_.bias(),
                   randomness::of_hidden(rank, randomness::Site::attention_output, layer_));
  Tensor dcontext = projection_.backward(rank, dprojected, saved.context);
  const Tensor dqkv =
      core_->backward(rank, std::move(dcontext), std::move(saved.context), std::move(saved.core));
  positions_.apply(rank, dqkv, first_position(rank), true);
  return qkv_.backward(rank, dqkv, saved.input);
}

ParameterList Attention::parameters() {
  return join({qkv_.parameters(), projection_.parameters()});
}

}  // namespace frugal
