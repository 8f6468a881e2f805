#pragma once
#include "engine/model/attention/fused_core.h"

namespace frugal::engine {

/// Ring attention (Liu et al. 2023, arXiv:2310.01889): each of the c ranks that share a sequence
/// keeps the queries of its part, and keys and values travel around a ring. While a rank computes
/// with one part's, it sends these on and receives the next: 2 · groups · d/t · s/c · b elements in
/// each of c − 1 steps. In backward the gradients of keys and values travel with them in
/// accumulation type, and one step further, home.
///
/// Parts of the sequence are contiguous, as the paper has them, and of parts that come later than
/// its own a causal rank computes nothing: rank r computes r + 1 of the c parts. So the last one
/// computes most, and the others wait for it. A rank that stands for all is the last one
/// (engine/cluster_lone.cpp).
///
/// Keeps qkv and the logarithmic sums over all columns.
class RingCore final : public FusedCore {
 public:
  using FusedCore::FusedCore;

  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// Keys and values of a part of the sequence, [s/c, b, groups · 2 · d].
  Tensor allocate_block(const Pass& pass, const View& qkv, DType type) const;
  Tensor own_block(const Pass& pass, const View& qkv) const;
  HeadViews block_views() const { return {0, views_.head_size()}; }

  /// Of the rank's queries with the keys and values that have come in this step: in the first its
  /// own, then blocks.
  FusedAttention operation(const Pass& pass, int step, const View& qkv, const View& block,
                           const View& context, const View& log_sum_exp) const;
  /// Of the first step: context [s/c, b, groups · G · d] in accumulation type.
  Tensor begin(const Pass& pass, const View& qkv, const View& log_sum_exp) const;
  /// Adds a later step's.
  void add(const Pass& pass, int step, const View& qkv, const View& block, const View& context,
           const View& log_sum_exp) const;
};

}  // namespace frugal::engine
