#include "engine/model/attention/attention_core.h"

#include <cmath>

#include "engine/model/attention/fused_core.h"

namespace frugal::engine {
namespace {

/// Attention to a sequence of padding alone (AttentionChoices::padded_data): nothing is attended to
/// or kept.
class PaddedCore final : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  /// Recomputation gives it no qkv, of which nothing was kept.
  Tensor forward(const Pass& pass, Saved& saved) const override {
    const RunConfig& c = pass.rank.config;
    Tensor context = pass.allocate(
        {c.group_sequence(), c.micro_batch, c.model.query_size() / c.tensor_parallel});
    saved = {};
    return context;
  }
  Tensor backward(const Pass& pass, Tensor, Tensor context, Saved) const override {
    const int64_t heads = views_.heads_per_group();
    const Shape& shape = context.shape();
    return pass.allocate(context.type(), {shape[0], shape[1], shape[2] / heads * (heads + 2)},
                         pieces_of_qkv(pass.rank.config));
  }
};

/// True if queries, keys and values are all kept.
bool keeps_qkv(const Pass& pass) {
  return !pass.recomputes(LayerModule::projection) && !pass.recomputes(LayerModule::keys);
}

/// Makes the core of heads that a rank has without exchanging them.
std::unique_ptr<const AttentionCore> core_of(const RunConfig& c, int layer,
                                             const HeadViews& views) {
  if (c.attention == AttentionKind::separate) return make_separate_core(layer, views);
  if (c.ring_ranks() > 1) return make_ring_core(layer, views);
  if (c.program.attention.padded_data) return std::make_unique<PaddedCore>(layer, views);
  return std::make_unique<FusedCore>(layer, views);
}

}  // namespace

Pieces pieces_of_qkv(const RunConfig& config) {
  if (!config.program.attention.separate_projections) return {};
  const ModelConfig& m = config.model;
  return {m.heads, m.key_value_heads(), m.key_value_heads()};
}

Tensor AttentionCore::allocate_context(const Pass& pass, const View& qkv) const {
  const int64_t heads = views_.heads_per_group();
  return pass.allocate({qkv.shape[0], qkv.shape[1], qkv.shape[2] / (heads + 2) * heads});
}

float AttentionCore::scale_of(const ModelConfig& m) {
  const double width = m.query_scale > 0 ? m.query_scale : static_cast<double>(m.head_size());
  return static_cast<float>(1 / std::sqrt(width));
}

View AttentionCore::kept_qkv(const Pass& pass, const Saved& saved) {
  return keeps_qkv(pass) ? keep(pass, saved.qkv) : saved.qkv;
}

AttentionCore::Saved AttentionCore::Saved::kept(const Pass& pass) const {
  const Tensor projected = keeps_qkv(pass) ? keep(pass, qkv) : Tensor();
  if (pass.recomputes(LayerModule::core_attention)) return {projected, {}, {}, {}, {}, {}};
  return {projected, keep(pass, probabilities), keep(pass, mask), keep(pass, dropped), log_sum_exp,
          extras};
}

std::unique_ptr<const AttentionCore> AttentionCore::make(const RunConfig& c, int layer) {
  if (c.head_ranks() == 1) return core_of(c, layer, HeadViews(c.model));
  return make_ulysses_core(c, layer, core_of);
}

HeadGradients::HeadGradients(const Pass& pass, const HeadViews& views, const View& qkv)
    : pass_(pass), views_(views), each_(1, views.head_size()), qkv_(qkv) {
  if (!pass.rank.config.program.attention.joined_gradients) all_ = in_one();
}

Tensor HeadGradients::in_one() const {
  return pass_.allocate(qkv_.type, qkv_.shape, pieces_of_qkv(pass_.rank.config));
}

const Tensor& HeadGradients::taken(Tensor& part, int64_t heads) {
  const int64_t columns = qkv_.shape[2] / (views_.heads_per_group() + 2) * heads;
  if (part.empty()) part = pass_.allocate({qkv_.shape[0], qkv_.shape[1], columns});
  return part;
}

View HeadGradients::queries() {
  return together() ? views_.queries(all_)
                    : views_.context(taken(queries_, views_.heads_per_group()));
}

View HeadGradients::query(int64_t head) {
  return together() ? views_.query(all_, head)
                    : views_.context(taken(queries_, views_.heads_per_group()), head);
}

View HeadGradients::keys() {
  return together() ? views_.keys(all_) : each_.context(taken(keys_, 1));
}

View HeadGradients::values() {
  return together() ? views_.values(all_) : each_.context(taken(values_, 1));
}

Tensor HeadGradients::joined() {
  if (together()) return std::move(all_);
  Tensor all = in_one();
  const auto join = [&](const Tensor& part, const View& to) {
    pass_.run(Copy{part.view().reshaped(to.shape), to});
  };
  join(queries_, views_.side_by_side_queries(all));
  join(keys_, views_.side_by_side_keys(all));
  join(values_, views_.side_by_side_values(all));
  return all;
}

}  // namespace frugal::engine
