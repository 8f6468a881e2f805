#include "engine/model/attention/attention.h"

#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
#include "engine/model/saved.h"

namespace frugal::engine {

Attention::Attention(const RankAt& at, const std::string& name, int layer)
    : layer_(layer),
      qkv_(at, name + ".qkv",
           {.in = at.rank.config.model.hidden,
            .out = at.rank.config.model.qkv_size(),
            .bias = at.rank.config.model.bias != BiasKind::none,
            .pieces = pieces_of_qkv(at.rank.config)},
           initial::weight()),
      positions_(at),
      core_(AttentionCore::make(at.rank.config, layer)),
      projection_(at, name + ".projection",
                  {.in = at.rank.config.model.query_size(),
                   .out = at.rank.config.model.hidden,
                   .bias = at.rank.config.model.bias == BiasKind::all},
                  initial::residual_weight(at.rank.config.model)) {}

Tensor Attention::forward(const Pass& outer, const Tensor& x, const Tensor& residual,
                          Saved& saved) const {
  const Pass pass = outer.in(Part::attention);
  if (!pass.recomputes(LayerModule::norm)) saved.input = keep(pass, x);
  AttentionCore::Saved core;
  core.qkv = qkv_for_core(pass, x);
  Tensor context = core_->forward(pass, core);
  const bool context_again = pass.recomputes(LayerModule::core_attention) && core_->needs_context();
  if (!context_again) saved.context = keep(pass, context);
  saved.core = core.kept(pass);
  core = {};
  const Tensor projected = projection_.forward(pass, context);
  context.release();
  const Dropout dropout = randomness::of_hidden(pass, randomness::Site::attention_output, layer_);
  saved.mask = keep(pass, mask_for(pass, x.shape(), dropout));
  Tensor y = pass.allocate(x.shape());
  add_dropped(pass, projected, projection_.bias(), residual, saved.mask, y, dropout);
  return y;
}

Tensor Attention::qkv_for_core(const Pass& pass, const Tensor& x) const {
  Tensor qkv = qkv_.forward(pass, x);
  positions_.apply(pass, qkv, false);
  return core_->arranged(pass, std::move(qkv));
}

void Attention::make_core_again(const Pass& pass, const MadeAgain& input, Saved& saved) const {
  if (pass.recomputes(LayerModule::projection)) saved.core.qkv = qkv_for_core(pass, input());
  if (!pass.recomputes(LayerModule::core_attention)) return;
  Tensor context = core_->forward(pass, saved.core);
  if (core_->needs_context()) saved.context = std::move(context);
}

Tensor Attention::backward(const Pass& outer, const Tensor& dy, Saved saved,
                           const MadeAgain& input) {
  const Pass pass = outer.in(Part::attention);
  const auto x = [&] {
    if (saved.input.empty()) saved.input = input();
    return saved.input;
  };
  Tensor dprojected =
      undo_dropped(pass, dy, saved.mask, projection_.bias_to_sum(pass),
                   randomness::of_hidden(pass, randomness::Site::attention_output, layer_));
  const bool early = pass.rank.config.program.keeps.early_releases;
  if (early) saved.mask.release();
  const bool context_again = saved.context.empty();
  if (context_again) make_core_again(pass, x, saved);
  Tensor dcontext = projection_.backward(pass, dprojected, saved.context);
  if (early) dprojected.release();
  step_alone(pass, projection_.parameters());
  if (!core_->needs_context()) saved.context.release();
  if (!context_again) make_core_again(pass, x, saved);
  const Tensor dqkv =
      core_->backward(pass, std::move(dcontext), std::move(saved.context), std::move(saved.core));
  positions_.apply(pass, dqkv, true);
  Tensor dx = qkv_.backward(pass, dqkv, x());
  step_alone(pass, qkv_.parameters());
  return dx;
}

ParameterList Attention::parameters() {
  return join({qkv_.parameters(), projection_.parameters()});
}

}  // namespace frugal::engine
