#include "engine/model/attention/attention_core.h"
#include "engine/model/dropout.h"

namespace frugal::engine {

/// Products, softmax and dropout as operations of their own (korthikanti2022, figure 3). Heads of
/// queries that share keys and values have a product each.
class SeparateCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  /// Recomputation runs all of it again, as the paper does, although the product with V is not
  /// needed a second time.
  Tensor forward(const Pass& pass, Saved& saved) const override;
  bool needs_context() const override { return false; }
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// Matrices of head i of each group, of [b · groups · G, s, s].
  View of_head(const View& all, int64_t i) const;
};

Tensor SeparateCore::forward(const Pass& pass, Saved& saved) const {
  const ModelConfig& m = pass.rank.config.model;
  const View qkv = kept_qkv(pass, saved);
  const Shape shape{views_.keys(qkv).shape[0] * views_.heads_per_group(), m.sequence, m.sequence};
  const Dropout dropout = randomness::of_attention(pass, layer_);

  const bool wide = pass.rank.config.program.attention.wide_probabilities;
  saved.probabilities = pass.allocate(wide ? accumulation_type(qkv.type) : qkv.type, shape);
  Tensor scores = wide ? pass.allocate(shape) : saved.probabilities;  // in the same place
  pass.event(ModelEvent::scores_placed, scores);
  saved.dropped = dropout.active() || wide ? pass.allocate(shape) : saved.probabilities;
  saved.mask = mask_for(pass, shape, dropout);
  for (int64_t i = 0; i < views_.heads_per_group(); ++i)
    pass.run(Gemm{.a = views_.query(qkv, i),
                  .b = views_.keys(qkv),
                  .c = of_head(scores, i),
                  .transpose_b = true});
  pass.run(Softmax{.x = scores,
                   .p = saved.probabilities,
                   .mask = saved.mask,
                   .dropped = dropout.active() || wide ? saved.dropped.view() : View(),
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

std::unique_ptr<const AttentionCore> make_separate_core(int layer, const HeadViews& views) {
  return std::make_unique<SeparateCore>(layer, views);
}

}  // namespace frugal::engine
