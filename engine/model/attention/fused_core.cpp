#include "engine/model/attention/fused_core.h"

#include "engine/model/randomness.h"
#include "engine/model/saved.h"

namespace frugal {

Tensor FusedCore::allocate_log_sum_exp(Rank& rank, const View& qkv) const {
  return rank.allocate(accumulation_type(qkv.type),
                       {views_.keys(qkv).shape[0] * views_.heads_per_group(), qkv.shape[0]},
                       Kind::statistics);
}

Tensor FusedCore::forward(Rank& rank, Tensor qkv, Saved& saved) const {
  saved.qkv = keep(qkv);
  saved.log_sum_exp = allocate_log_sum_exp(rank, qkv);
  Tensor context = allocate_context(rank, qkv);
  rank.run(operation(rank, qkv, context, saved.log_sum_exp));
  return context;
}

Tensor FusedCore::backward(Rank& rank, Tensor dcontext, Tensor context, Saved saved) const {
  Tensor dqkv = rank.allocate(saved.qkv.shape());
  rank.run(FusedAttentionBackward{.forward = operation(rank, saved.qkv, context, saved.log_sum_exp),
                                  .dy = views_.context(dcontext),
                                  .dq = views_.queries(dqkv),
                                  .dk = views_.keys(dqkv),
                                  .dv = views_.values(dqkv)});
  return dqkv;
}

FusedAttention FusedCore::operation(const Rank& rank, const View& qkv, const View& context,
                                    const View& log_sum_exp) const {
  const ModelConfig& m = rank.config.model;
  return {.q = views_.queries(qkv),
          .k = views_.keys(qkv),
          .v = views_.values(qkv),
          .y = views_.context(context),
          .log_sum_exp = log_sum_exp,
          .scale = scale_of(m),
          .causal = m.causal,
          .window = m.window_of(layer_),
          .softcap = static_cast<float>(m.attention_softcap),
          .dropout = randomness::of_attention(rank, layer_)};
}

}  // namespace frugal
