#pragma once
#include "engine/model/attention/attention_core.h"

namespace frugal::engine {

/// One operation, whose backward computes the probabilities again from Q, K and their logarithmic
/// sums: no tensor of [s, s] is ever made.
class FusedCore : public AttentionCore {
 public:
  using AttentionCore::AttentionCore;

  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 protected:
  /// Attention of all that a rank has to itself. qkv [s, b, groups · (G + 2) · d], context beside
  /// it, log_sum_exp [b · heads, s].
  FusedAttention operation(const Pass& pass, const View& qkv, const View& context,
                           const View& log_sum_exp) const;
  /// [b · heads, s] beside qkv.
  Tensor allocate_log_sum_exp(const Pass& pass, const View& qkv) const;
};

}  // namespace frugal::engine
