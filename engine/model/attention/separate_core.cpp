#include "engine/model/attention/separate_core.h"

#include "engine/model/attention/head_gradients.h"
#include "engine/model/copied.h"
#include "engine/model/hidden_dropout.h"
#include "engine/model/saved.h"

namespace frugal::engine {
namespace {

/// Scores beside probabilities, or the one's gradients beside the other's: in the same place, or
/// where a program has them so in memory of their own.
Tensor other_side_of_softmax(const Pass& pass, const Tensor& side) {
  return pass.rank.config.program.keeps.separate_scores ? pass.allocate(side.shape()) : side;
}

}  // namespace

Tensor SeparateCore::forward(const Pass& pass, Saved& saved) const {
  const ModelConfig& m = pass.rank.config.model;
  const View qkv = kept_qkv(pass, saved);
  const Shape shape{views_.keys(qkv).shape[0] * views_.heads_per_group(), m.sequence, m.sequence};
  const Dropout dropout = randomness::of_attention(pass, layer_);

  saved.probabilities = pass.allocate(shape);
  const Tensor scores = other_side_of_softmax(pass, saved.probabilities);
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
  return pass.rank.config.program.keeps.copied_heads ? copied(pass, context) : context;
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
  if (pass.rank.config.program.keeps.early_releases) dcontext.release();
  Tensor dscores = other_side_of_softmax(pass, ddropped);
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
  return pass.rank.config.program.keeps.copied_heads ? joined(pass, dqkv) : dqkv;
}

Tensor SeparateCore::joined(const Pass& pass, const Tensor& parts) const {
  const int64_t heads = views_.heads_per_group(), keys = parts.view().size() / (heads + 2);
  for (const int64_t elements : {heads * keys, keys}) {
    const Tensor scaled = pass.allocate(parts.type(), {elements});
    pass.run(Copy{parts.view().flat().sliced(0, 0, elements), scaled});
  }
  return copied(pass, parts);
}

View SeparateCore::of_head(const View& all, int64_t i) const {
  const int64_t heads = views_.heads_per_group(), matrix = all.shape[1] * all.shape[2];
  return all.strided(i * matrix, {all.shape[0] / heads, all.shape[1], all.shape[2]},
                     {heads * matrix, all.shape[2], 1, 0});
}

}  // namespace frugal::engine
