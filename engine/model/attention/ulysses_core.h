#pragma once
#include "engine/model/attention/fused_core.h"
#include "engine/model/head/head_division.h"

namespace frugal::engine {

/// DeepSpeed-Ulysses (arXiv:2309.14509, section 3.1): the c ranks that share a sequence exchange
/// their parts of it for parts of the heads, compute these over the whole sequence, and exchange
/// the results back. An all-to-all each way, of what the rank sends: (a + 2·groups) · d/t · s/c · b
/// elements there, a · d/t · s/c · b back.
///
/// Keeps the exchanged qkv and the logarithmic sums. The context over the whole sequence, which
/// backward needs, is not kept beside the rank's own one: that is exchanged again, a · d/t · s/c ·
/// b elements more, because as much memory would be kept for every layer.
class UlyssesCore final : public AttentionCore {
 public:
  UlyssesCore(int layer, const RunConfig& config);

  Tensor arranged(const Pass& pass, Tensor qkv) const override;
  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// All heads of a part of the sequence → the rank's heads of all of it, and back.
  Tensor context_by_heads(const Pass& pass, Tensor context) const;
  Tensor context_by_tokens(const Pass& pass, Tensor context) const;
  Tensor gradient_by_tokens(const Pass& pass, Tensor dqkv) const;

  HeadDivision division_;
  FusedCore inner_;  // of the rank's heads
};

}  // namespace frugal::engine
