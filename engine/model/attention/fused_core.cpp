#include "engine/model/attention/fused_core.h"

#include "engine/model/attention/head_gradients.h"
#include "engine/model/randomness.h"
#include "engine/model/saved.h"

namespace frugal::engine {

Tensor FusedCore::allocate_log_sum_exp(const Pass& pass, const View& qkv) const {
  return pass.allocate(accumulation_type(qkv.type),
                       {views_.keys(qkv).shape[0] * views_.heads_per_group(), qkv.shape[0]},
                       Kind::statistics);
}

Tensor FusedCore::forward(const Pass& pass, Saved& saved) const {
  if (pass.rank.config.program.keeps.padded_data) {
    Tensor context = allocate_context(pass, saved.qkv);
    saved = {};
    return context;
  }
  const View qkv = kept_qkv(pass, saved);
  saved.log_sum_exp = allocate_log_sum_exp(pass, qkv);
  Tensor context = allocate_context(pass, qkv);
  pass.run(operation(pass, qkv, context, saved.log_sum_exp));
  return context;
}

std::vector<Tensor> FusedCore::backward_workspace(const Pass& pass, const View& context) const {
  if (!pass.rank.config.program.keeps.attention_workspace) return {};
  std::vector<Tensor> all{pass.allocate(accumulation_type(context.type), context.shape)};
  if (views_.heads_per_group() == 1) return all;
  for (int i = 0; i < 2; ++i) all.push_back(pass.allocate(context.type, context.shape));
  return all;
}

Tensor FusedCore::backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const {
  if (pass.rank.config.program.keeps.padded_data) return backward_of_padding(pass, context);
  HeadGradients gradients(pass, views_, saved.qkv);
  std::vector<Tensor> workspace = backward_workspace(pass, context);
  pass.run(FusedAttentionBackward{.forward = operation(pass, saved.qkv, context, saved.log_sum_exp),
                                  .dy = views_.context(dcontext),
                                  .dq = gradients.queries(),
                                  .dk = gradients.keys(),
                                  .dv = gradients.values()});
  workspace.clear();
  if (pass.rank.config.program.keeps.early_releases) {
    dcontext.release();
    saved = {};
  }
  return gradients.joined();
}

Tensor FusedCore::backward_of_padding(const Pass& pass, const View& context) const {
  const int64_t heads = views_.heads_per_group();
  return pass.allocate(context.type,
                       {context.shape[0], context.shape[1], context.shape[2] / heads * (heads + 2)},
                       pieces_of_qkv(pass.rank.config));
}

FusedAttention FusedCore::operation(const Pass& pass, const View& qkv, const View& context,
                                    const View& log_sum_exp) const {
  const ModelConfig& m = pass.rank.config.model;
  return {.q = views_.queries(qkv),
          .k = views_.keys(qkv),
          .v = views_.values(qkv),
          .y = views_.context(context),
          .log_sum_exp = log_sum_exp,
          .scale = scale_of(m),
          .causal = m.causal,
          .window = m.window_of(layer_),
          .softcap = static_cast<float>(m.attention_softcap),
          .dropout = randomness::of_attention(pass, layer_)};
}

}  // namespace frugal::engine
