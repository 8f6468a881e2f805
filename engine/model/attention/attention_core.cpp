#include "engine/model/attention/attention_core.h"

#include <cmath>

#include "engine/model/attention/fused_core.h"
#include "engine/model/attention/ring_core.h"
#include "engine/model/attention/separate_core.h"
#include "engine/model/attention/ulysses_core.h"
#include "engine/model/saved.h"

namespace frugal::engine {

namespace {

/// Makes the core of heads that a rank has without exchanging them.
std::unique_ptr<const AttentionCore> core_of(const RunConfig& c, int layer,
                                             const HeadViews& views) {
  if (c.attention == AttentionKind::separate) return std::make_unique<SeparateCore>(layer, views);
  if (c.ring_ranks() == 1) return std::make_unique<FusedCore>(layer, views);
  return std::make_unique<RingCore>(layer, views);
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
  return pass.recomputes(LayerModule::projection) ? saved.qkv : keep(pass, saved.qkv);
}

AttentionCore::Saved AttentionCore::Saved::kept(const Pass& pass) const {
  const Tensor projected = pass.recomputes(LayerModule::projection) ? Tensor() : keep(pass, qkv);
  if (pass.recomputes(LayerModule::core_attention)) return {projected, {}, {}, {}, {}};
  return {projected, keep(pass, probabilities), keep(pass, mask), keep(pass, dropped), log_sum_exp};
}

std::unique_ptr<const AttentionCore> AttentionCore::make(const RunConfig& c, int layer) {
  if (c.head_ranks() == 1) return core_of(c, layer, HeadViews(c.model));
  const HeadDivision division(c);
  return std::make_unique<UlyssesCore>(layer, division, core_of(c, layer, division.own()));
}

}  // namespace frugal::engine
