#pragma once
#include "engine/model/attention/attention_core.h"
#include "engine/model/head/head_division.h"

namespace frugal::engine {

/// DeepSpeed-Ulysses (arXiv:2309.14509, section 3.1): u of the c ranks that share a sequence
/// exchange their parts of it for parts of the heads, compute these over all that they have of it
/// together, and exchange the results back. An all-to-all each way, of what the rank sends:
/// (a + 2·groups) · d/t · s/c · b elements there, a · d/t · s/c · b back.
///
/// What computes the heads is an attention core of its own. With u = c there is the whole sequence;
/// otherwise s/r = u · s/c of it, and the core is a ring's (Fang and Zhao 2024, "USP",
/// arXiv:2405.07719), where each of the ranks passes on keys and values of its own heads.
///
/// Keeps what that core keeps of the exchanged qkv. The context of the exchanged heads, which
/// backward needs, is not kept beside the rank's own one: that is exchanged again, a · d/t · s/c ·
/// b elements more, because as much memory would be kept for every layer.
class UlyssesCore final : public AttentionCore {
 public:
  /// `inner` computes division.own().
  UlyssesCore(int layer, const HeadDivision& division, std::unique_ptr<const AttentionCore> inner);

  Tensor arranged(const Pass& pass, Tensor qkv) const override;
  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// All heads of a part of the sequence → the rank's heads of u of them, and back.
  Tensor context_by_heads(const Pass& pass, Tensor context) const;
  Tensor context_by_tokens(const Pass& pass, Tensor context) const;
  Tensor gradient_by_tokens(const Pass& pass, Tensor dqkv) const;

  HeadDivision division_;
  std::unique_ptr<const AttentionCore> inner_;  // of the rank's heads
};

}  // namespace frugal::engine
