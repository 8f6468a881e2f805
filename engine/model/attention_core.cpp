#include "engine/model/attention_core.h"

#include <cmath>

#include "engine/model/hidden_dropout.h"
#include "engine/model/saved.h"

namespace frugal {
namespace {

/// Q (0), K (1) or V (2) of all local heads as matrices [b·a/t, s, d] inside qkv
/// [s, b, a/t, 3, d]: no copy is made.
View heads_of(const View& qkv, int which, int64_t head_size) {
  const int64_t s = qkv.shape[0];
  const int64_t row = qkv.size() / s;
  return qkv.strided(which * head_size, {row / (3 * head_size), s, head_size},
                     {3 * head_size, row, 1, 0});
}

/// The context [s, b, a/t, d] as matrices [b·a/t, s, d].
View heads_of_context(const View& context, int64_t head_size) {
  const int64_t s = context.shape[0];
  const int64_t row = context.size() / s;
  return context.strided(0, {row / head_size, s, head_size}, {head_size, row, 1, 0});
}

float scale_of(int64_t head_size) { return 1.0F / std::sqrt(static_cast<float>(head_size)); }

/// [s, b, h/t]
Tensor allocate_context(Rank& rank) {
  const RunConfig& c = rank.config;
  return rank.allocate({c.model.sequence, c.micro_batch, c.model.hidden / c.tensor_parallel});
}

/// Products, softmax and dropout as operations of their own (korthikanti2022, figure 3).
class SeparateCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  /// Selective recomputation runs all of it again, as the paper does, although the product with V
  /// is not needed a second time.
  Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const override {
    const ModelConfig& m = rank.config.model;
    const int64_t d = m.head_size();
    const View q = heads_of(qkv, 0, d);
    const Shape shape{q.shape[0], m.sequence, m.sequence};
    const Dropout dropout = randomness::of_attention(rank, layer_);

    saved.probabilities = rank.allocate(shape);
    saved.dropped = dropout.active() ? rank.allocate(shape) : saved.probabilities;
    saved.mask = mask_for(rank, shape, dropout);
    rank.run(Gemm{.a = q, .b = heads_of(qkv, 1, d), .c = saved.probabilities, .transpose_b = true});
    rank.run(Softmax{.x = saved.probabilities,
                     .p = saved.probabilities,
                     .mask = saved.mask,
                     .dropped = dropout.active() ? saved.dropped.view() : View(),
                     .scale = scale_of(d),
                     .causal = m.causal,
                     .dropout = dropout});
    Tensor context = allocate_context(rank);
    rank.run(Gemm{.a = saved.dropped, .b = heads_of(qkv, 2, d), .c = heads_of_context(context, d)});
    return context;
  }

  Tensor backward(Rank& rank, const Tensor& dcontext, const Tensor& qkv, Tensor context,
                  Saved saved) const override {
    context.release();
    if (saved.empty()) forward(rank, qkv, saved);
    const ModelConfig& m = rank.config.model;
    const int64_t d = m.head_size();
    const View dy = heads_of_context(dcontext, d);
    Tensor dqkv = rank.allocate(qkv.shape());
    rank.run(Gemm{.a = saved.dropped, .b = dy, .c = heads_of(dqkv, 2, d), .transpose_a = true});
    saved.dropped.release();

    const Tensor dscores = rank.allocate(saved.probabilities.shape());
    rank.run(Gemm{.a = dy, .b = heads_of(qkv, 2, d), .c = dscores, .transpose_b = true});
    rank.run(SoftmaxBackward{.dy = dscores,
                             .p = saved.probabilities,
                             .mask = saved.mask,
                             .dx = dscores,
                             .scale = scale_of(d),
                             .causal = m.causal,
                             .dropout = randomness::of_attention(rank, layer_)});
    saved = {};
    rank.run(Gemm{.a = dscores, .b = heads_of(qkv, 1, d), .c = heads_of(dqkv, 0, d)});
    rank.run(Gemm{
        .a = dscores, .b = heads_of(qkv, 0, d), .c = heads_of(dqkv, 1, d), .transpose_a = true});
    return dqkv;
  }
};

/// One operation, whose backward computes the probabilities again from Q, K and their logarithmic
/// sums: no tensor of [s, s] is ever made.
class FusedCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  Tensor forward(Rank& rank, const Tensor& qkv, Saved& saved) const override {
    const int64_t matrices = heads_of(qkv, 0, rank.config.model.head_size()).shape[0];
    saved.log_sum_exp = rank.allocate(accumulation_type(rank.config.type),
                                      {matrices, rank.config.model.sequence}, Kind::statistics);
    Tensor context = allocate_context(rank);
    rank.run(operation(rank, qkv, context, saved.log_sum_exp));
    return context;
  }

  Tensor backward(Rank& rank, const Tensor& dcontext, const Tensor& qkv, Tensor context,
                  Saved saved) const override {
    const int64_t d = rank.config.model.head_size();
    Tensor dqkv = rank.allocate(qkv.shape());
    rank.run(FusedAttentionBackward{.forward = operation(rank, qkv, context, saved.log_sum_exp),
                                    .dy = heads_of_context(dcontext, d),
                                    .dq = heads_of(dqkv, 0, d),
                                    .dk = heads_of(dqkv, 1, d),
                                    .dv = heads_of(dqkv, 2, d)});
    return dqkv;
  }

 private:
  FusedAttention operation(const Rank& rank, const View& qkv, const View& context,
                           const View& log_sum_exp) const {
    const ModelConfig& m = rank.config.model;
    const int64_t d = m.head_size();
    return {.q = heads_of(qkv, 0, d),
            .k = heads_of(qkv, 1, d),
            .v = heads_of(qkv, 2, d),
            .y = heads_of_context(context, d),
            .log_sum_exp = log_sum_exp,
            .scale = scale_of(d),
            .causal = m.causal,
            .dropout = randomness::of_attention(rank, layer_)};
  }
};

}  // namespace

AttentionCore::Saved AttentionCore::Saved::kept() const {
  return {keep(probabilities), keep(mask), keep(dropped), log_sum_exp};
}

std::unique_ptr<const AttentionCore> AttentionCore::make(const Rank& rank, int layer) {
  if (rank.config.attention == AttentionKind::fused) return std::make_unique<FusedCore>(layer);
  return std::make_unique<SeparateCore>(layer);
}

}  // namespace frugal
