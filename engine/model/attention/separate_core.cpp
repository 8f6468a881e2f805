#include "engine/model/attention/separate_core.h"

#include "engine/model/attention/head_gradients.h"
#include "engine/model/dropout.h"
#include "engine/model/saved.h"

namespace frugal::engine {
Tensor SeparateCore::forward(const Pass& pass, Saved& saved) const {
  const ModelConfig& m = pass.rank.config.model;
  const View qkv = kept_qkv(pass, saved);
  const Shape shape{views_.keys(qkv).shape[0] * views_.heads_per_group(), m.sequence, m.sequence};
  const Dropout dropout = randomness::of_attention(pass, layer_);

  saved.probabilities = pass.allocate(shape);
  Tensor scores = saved.probabilities;  // in the same place
  pass.event(ModelEvent::scores_placed, scores);
  saved.dropped = dropout.active() ? pass.allocate(shape) : saved.probabilities;
  saved.mask = mask_for(pass, shape, dropout);
  for (int64_t i = 0; i < views_.heads_per_group(); ++i)
    pass.run(Gemm{.a = views_.query(qkv, i),
                  .b = views_.keys(qkv),
                  .c = of_head(scores, i),
                  .transpose_b = true});
  pass.run(Softmax{.x = scores,
                   .p = saved.probabilities,
                   .mask = saved.mask,
                   .dropped = dropout.active() ? saved.dropped.view() : View(),
                   .scale = scale_of(m),
                   .causal = m.causal,
                   .dropout = dropout});
  Tensor context = allocate_context(pass, qkv);
  for (int64_t i = 0; i < views_.heads_per_group(); ++i)
    pass.run(Gemm{
        .a = of_head(saved.dropped, i), .b = views_.values(qkv), .c = views_.context(context, i)});
  pass.event(ModelEvent::context_made, context);
  return context;
}

Tensor SeparateCore::backward(const Pass& pass, Tensor dcontext, Tensor, Saved saved) const {
  const ModelConfig& m = pass.rank.config.model;
  const Tensor qkv = saved.qkv;
  HeadGradients gradients(pass, views_, qkv);
  for (int64_t i = 0; i < views_.heads_per_group(); ++i)
    pass.run(Gemm{.a = of_head(saved.dropped, i),
                  .b = views_.context(dcontext, i),
                  .c = gradients.values(),
                  .transpose_a = true,
                  .accumulate = i > 0});
  saved.dropped.release();

  Tensor ddropped = pass.allocate(saved.probabilities.shape());
  for (int64_t i = 0; i < views_.heads_per_group(); ++i)
    pass.run(Gemm{.a = views_.context(dcontext, i),
                  .b = views_.values(qkv),
                  .c = of_head(ddropped, i),
                  .transpose_b = true});
  pass.event(ModelEvent::context_gradient_read, dcontext);
  Tensor dscores = ddropped;
  pass.event(ModelEvent::scores_placed, dscores);
  pass.run(SoftmaxBackward{.dy = ddropped,
                           .p = saved.probabilities,
                           .mask = saved.mask,
                           .dx = dscores,
                           .scale = scale_of(m),
                           .causal = m.causal,
                           .dropout = randomness::of_attention(pass, layer_)});
  saved = {};
  ddropped.release();
  for (int64_t i = 0; i < views_.heads_per_group(); ++i) {
    const View dscore = of_head(dscores, i);
    pass.run(Gemm{.a = dscore, .b = views_.keys(qkv), .c = gradients.query(i)});
    pass.run(Gemm{.a = dscore,
                  .b = views_.query(qkv, i),
                  .c = gradients.keys(),
                  .transpose_a = true,
                  .accumulate = i > 0});
  }
  dscores.release();
  Tensor dqkv = gradients.joined();
  pass.event(ModelEvent::joined_gradient_made, dqkv);
  return dqkv;
}

View SeparateCore::of_head(const View& all, int64_t i) const {
  const int64_t heads = views_.heads_per_group(), matrix = all.shape[1] * all.shape[2];
  return all.strided(i * matrix, {all.shape[0] / heads, all.shape[1], all.shape[2]},
                     {heads * matrix, all.shape[2], 1, 0});
}

}  // namespace frugal::engine
