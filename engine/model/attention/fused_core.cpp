#include "engine/model/attention/fused_core.h"

#include "engine/model/dropout.h"

namespace frugal::engine {

Tensor FusedCore::allocate_log_sum_exp(const Pass& pass, const View& qkv) const {
  return pass.allocate(accumulation_type(qkv.type),
                       {views_.keys(qkv).shape[0] * views_.heads_per_group(), qkv.shape[0]},
                       Kind::statistics);
}

Tensor FusedCore::forward(const Pass& pass, Saved& saved) const {
  const View qkv = kept_qkv(pass, saved);
  saved.log_sum_exp = allocate_log_sum_exp(pass, qkv);
  Tensor context = allocate_context(pass, qkv);
  pass.run(operation(pass, qkv, context, saved.log_sum_exp));
  pass.event(ModelEvent::fused_context_made, context, saved.extras);
  return context;
}

Tensor FusedCore::backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const {
  HeadGradients gradients(pass, views_, saved.qkv);
  Extras extras;
  pass.event(ModelEvent::attention_gradient_begins, context, extras);
  if (views_.heads_per_group() > 1)
    pass.event(ModelEvent::grouped_gradient_begins, context, extras);
  pass.run(FusedAttentionBackward{.forward = operation(pass, saved.qkv, context, saved.log_sum_exp),
                                  .dy = views_.context(dcontext),
                                  .dq = gradients.queries(),
                                  .dk = gradients.keys(),
                                  .dv = gradients.values()});
  for (Extras* held : {&extras, &saved.extras})
    pass.event(ModelEvent::attention_gradient_ends, *held);
  pass.event(ModelEvent::context_gradient_read, dcontext);
  for (Tensor* read : {&saved.qkv, &saved.log_sum_exp})
    pass.event(ModelEvent::attention_inputs_read, *read);
  return gradients.joined();
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
