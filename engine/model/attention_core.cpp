#include "engine/model/attention_core.h"

#include <cmath>

#include "engine/model/head_views.h"
#include "engine/model/hidden_dropout.h"
#include "engine/model/saved.h"

namespace frugal {
namespace {

float scale_of(const ModelConfig& m) {
  const double width = m.query_scale > 0 ? m.query_scale : static_cast<double>(m.head_size());
  return static_cast<float>(1 / std::sqrt(width));
}

/// [s, b, groups · G · d] beside qkv.
Tensor allocate_context(Rank& rank, const View& qkv) {
  const int64_t heads = rank.config.model.queries_per_group();
  return rank.allocate({qkv.shape[0], qkv.shape[1], qkv.shape[2] / (heads + 2) * heads});
}

/// Products, softmax and dropout as operations of their own (korthikanti2022, figure 3). Heads of
/// queries that share keys and values have a product each.
class SeparateCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  /// Selective recomputation runs all of it again, as the paper does, although the product with V
  /// is not needed a second time.
  Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const override {
    const ModelConfig& m = rank.config.model;
    const HeadViews views(m);
    const Shape shape{views.keys(qkv).shape[0] * m.queries_per_group(), m.sequence, m.sequence};
    const Dropout dropout = randomness::of_attention(rank, layer_);

    saved.qkv = keep(qkv);
    saved.probabilities = rank.allocate(shape);
    saved.dropped = dropout.active() ? rank.allocate(shape) : saved.probabilities;
    saved.mask = mask_for(rank, shape, dropout);
    for (int64_t i = 0; i < views.heads_per_group(); ++i)
      rank.run(Gemm{.a = views.query(qkv, i),
                    .b = views.keys(qkv),
                    .c = of_head(saved.probabilities, views, i),
                    .transpose_b = true});
    rank.run(Softmax{.x = saved.probabilities,
                     .p = saved.probabilities,
                     .mask = saved.mask,
                     .dropped = dropout.active() ? saved.dropped.view() : View(),
                     .scale = scale_of(m),
                     .causal = m.causal,
                     .dropout = dropout});
    Tensor context = allocate_context(rank, qkv);
    for (int64_t i = 0; i < views.heads_per_group(); ++i)
      rank.run(Gemm{.a = of_head(saved.dropped, views, i),
                    .b = views.values(qkv),
                    .c = views.context(context, i)});
    return context;
  }

  Tensor backward(Rank& rank, const Tensor& dcontext, Tensor context, Saved saved) const override {
    context.release();
    if (saved.to_be_recomputed()) forward(rank, Tensor(saved.qkv), saved);
    const ModelConfig& m = rank.config.model;
    const HeadViews views(m);
    const Tensor qkv = saved.qkv;
    Tensor dqkv = rank.allocate(qkv.shape());
    for (int64_t i = 0; i < views.heads_per_group(); ++i)
      rank.run(Gemm{.a = of_head(saved.dropped, views, i),
                    .b = views.context(dcontext, i),
                    .c = views.values(dqkv),
                    .transpose_a = true,
                    .accumulate = i > 0});
    saved.dropped.release();

    const Tensor dscores = rank.allocate(saved.probabilities.shape());
    for (int64_t i = 0; i < views.heads_per_group(); ++i)
      rank.run(Gemm{.a = views.context(dcontext, i),
                    .b = views.values(qkv),
                    .c = of_head(dscores, views, i),
                    .transpose_b = true});
    rank.run(SoftmaxBackward{.dy = dscores,
                             .p = saved.probabilities,
                             .mask = saved.mask,
                             .dx = dscores,
                             .scale = scale_of(m),
                             .causal = m.causal,
                             .dropout = randomness::of_attention(rank, layer_)});
    saved = {};
    for (int64_t i = 0; i < views.heads_per_group(); ++i) {
      const View dscore = of_head(dscores, views, i);
      rank.run(Gemm{.a = dscore, .b = views.keys(qkv), .c = views.query(dqkv, i)});
      rank.run(Gemm{.a = dscore,
                    .b = views.query(qkv, i),
                    .c = views.keys(dqkv),
                    .transpose_a = true,
                    .accumulate = i > 0});
    }
    return dqkv;
  }

 private:
  /// Of [b · groups · G, s, s], the matrices of head i of each group.
  static View of_head(const View& all, const HeadViews& views, int64_t i) {
    const int64_t heads = views.heads_per_group(), matrix = all.shape[1] * all.shape[2];
    return all.strided(i * matrix, {all.shape[0] / heads, all.shape[1], all.shape[2]},
                       {heads * matrix, all.shape[2], 1, 0});
  }
};

/// One operation, whose backward computes the probabilities again from Q, K and their logarithmic
/// sums: no tensor of [s, s] is ever made.
class FusedCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const override {
    const HeadViews views(rank.config.model);
    saved.qkv = keep(qkv);
    saved.log_sum_exp = rank.allocate(
        accumulation_type(rank.config.type),
        {views.keys(qkv).shape[0] * views.heads_per_group(), qkv.shape()[0]}, Kind::statistics);
    Tensor context = allocate_context(rank, qkv);
    rank.run(operation(rank, qkv, context, saved.log_sum_exp));
    return context;
  }

  Tensor backward(Rank& rank, const Tensor& dcontext, Tensor context, Saved saved) const override {
    const HeadViews views(rank.config.model);
    Tensor dqkv = rank.allocate(saved.qkv.shape());
    rank.run(
        FusedAttentionBackward{.forward = operation(rank, saved.qkv, context, saved.log_sum_exp),
                               .dy = views.context(dcontext),
                               .dq = views.queries(dqkv),
                               .dk = views.keys(dqkv),
                               .dv = views.values(dqkv)});
    return dqkv;
  }

 private:
  FusedAttention operation(const Rank& rank, const View& qkv, const View& context,
                           const View& log_sum_exp) const {
    const ModelConfig& m = rank.config.model;
    const HeadViews views(m);
    return {.q = views.queries(qkv),
            .k = views.keys(qkv),
            .v = views.values(qkv),
            .y = views.context(context),
            .log_sum_exp = log_sum_exp,
            .scale = scale_of(m),
            .causal = m.causal,
            .window = m.window_of(layer_),
            .softcap = static_cast<float>(m.attention_softcap),
            .dropout = randomness::of_attention(rank, layer_)};
  }
};

}  // namespace

AttentionCore::Saved AttentionCore::Saved::kept(bool selective) const {
  if (selective) return {keep(qkv), {}, {}, {}, {}};
  return {keep(qkv), keep(probabilities), keep(mask), keep(dropped), log_sum_exp};
}

std::unique_ptr<const AttentionCore> AttentionCore::make(const Rank& rank, int layer) {
  if (rank.config.attention == AttentionKind::fused) return std::make_unique<FusedCore>(layer);
  return std::make_unique<SeparateCore>(layer);
}

}  // namespace frugal
