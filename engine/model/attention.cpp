#include "engine/model/attention.h"

#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
#include "engine/model/saved.h"

namespace frugal {

Attention::Attention(Rank& rank, const std::string& name, int layer)
    : layer_(layer),
      qkv_(rank, name + ".qkv", rank.config.model.hidden, 3 * rank.config.model.hidden,
           initial::weight()),
      core_(AttentionCore::make(rank, layer)),
      projection_(rank, name + ".projection", rank.config.model.hidden, rank.config.model.hidden,
                  initial::residual_weight(rank.config.model)) {}

Tensor Attention::forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const {
  saved.input = keep(x);
  saved.qkv = keep(qkv_.forward(rank, x));
  AttentionCore::Saved core;
  saved.context = keep(core_->forward(rank, saved.qkv, core));
  if (rank.recompute != Recompute::selective) saved.core = core.kept();
  core = {};
  const Tensor projected = projection_.forward(rank, saved.context);
  return add_dropped(rank, projected, projection_.bias(), residual, saved.mask,
                     randomness::of_hidden(rank, randomness::Site::attention_output, layer_));
}

Tensor Attention::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Tensor dprojected =
      undo_dropped(rank, dy, saved.mask, projection_.bias(),
                   randomness::of_hidden(rank, randomness::Site::attention_output, layer_));
  Tensor dcontext = projection_.backward(rank, dprojected, saved.context);
  const Tensor dqkv =
      core_->backward(rank, dcontext, saved.qkv, std::move(saved.context), std::move(saved.core));
  dcontext.release();
  saved.qkv.release();
  return qkv_.backward(rank, dqkv, saved.input);
}

ParameterList Attention::parameters() {
  return join({qkv_.parameters(), projection_.parameters()});
}

}  // namespace frugal
