#include "engine/model/attention.h"

#include <cmath>

#include "engine/model/hidden_dropout.h"
#include "engine/model/initial.h"
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

}  // namespace

Attention::Attention(Rank& rank, const std::string& name, int layer)
    : layer_(layer),
      qkv_(rank, name + ".qkv", rank.config.model.hidden, 3 * rank.config.model.hidden,
           initial::weight()),
      projection_(rank, name + ".projection", rank.config.model.hidden, rank.config.model.hidden,
                  initial::residual_weight(rank.config.model)) {}

Tensor Attention::core_forward(Rank& rank, const Tensor& qkv, CoreSaved& saved) const {
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
  Tensor context =
      rank.allocate({m.sequence, rank.config.micro_batch, m.hidden / rank.config.tensor_parallel});
  rank.run(Gemm{.a = saved.dropped, .b = heads_of(qkv, 2, d), .c = heads_of_context(context, d)});
  return context;
}

Tensor Attention::forward(Rank& rank, const Tensor& x, const Tensor& residual, Saved& saved) const {
  saved.input = keep(x);
  saved.qkv = keep(qkv_.forward(rank, x));
  CoreSaved core;
  saved.context = keep(core_forward(rank, saved.qkv, core));
  if (rank.config.recompute != Recompute::selective) {
    saved.core = {keep(core.probabilities), keep(core.mask), keep(core.dropped)};
  }
  core = {};
  const Tensor projected = projection_.forward(rank, saved.context);
  return add_dropped(rank, projected, projection_.bias(), residual, saved.mask,
                     randomness::of_hidden(rank, randomness::Site::attention_output, layer_));
}

Tensor Attention::core_backward(Rank& rank, const Tensor& dcontext, const Tensor& qkv,
                                CoreSaved core) const {
  const ModelConfig& m = rank.config.model;
  const int64_t d = m.head_size();
  const View dy = heads_of_context(dcontext, d);
  Tensor dqkv = rank.allocate(qkv.shape());
  rank.run(Gemm{.a = core.dropped, .b = dy, .c = heads_of(dqkv, 2, d), .transpose_a = true});
  core.dropped.release();

  const Tensor dscores = rank.allocate(core.probabilities.shape());
  rank.run(Gemm{.a = dy, .b = heads_of(qkv, 2, d), .c = dscores, .transpose_b = true});
  rank.run(SoftmaxBackward{.dy = dscores,
                           .p = core.probabilities,
                           .mask = core.mask,
                           .dx = dscores,
                           .scale = scale_of(d),
                           .causal = m.causal,
                           .dropout = randomness::of_attention(rank, layer_)});
  core = {};
  rank.run(Gemm{.a = dscores, .b = heads_of(qkv, 1, d), .c = heads_of(dqkv, 0, d)});
  rank.run(
      Gemm{.a = dscores, .b = heads_of(qkv, 0, d), .c = heads_of(dqkv, 1, d), .transpose_a = true});
  return dqkv;
}

Tensor Attention::backward(Rank& rank, const Tensor& dy, Saved saved) const {
  const Tensor dprojected =
      undo_dropped(rank, dy, saved.mask, projection_.bias(),
                   randomness::of_hidden(rank, randomness::Site::attention_output, layer_));
  Tensor dcontext = projection_.backward(rank, dprojected, saved.context);
  saved.context.release();
  if (saved.core.probabilities.empty()) core_forward(rank, saved.qkv, saved.core);
  const Tensor dqkv = core_backward(rank, dcontext, saved.qkv, std::move(saved.core));
  dcontext.release();
  saved.qkv.release();
  return qkv_.backward(rank, dqkv, saved.input);
}

ParameterList Attention::parameters() {
  return join({qkv_.parameters(), projection_.parameters()});
}

}  // namespace frugal
