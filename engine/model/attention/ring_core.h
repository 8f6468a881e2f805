#pragma once
#include "engine/model/attention/fused_core.h"

namespace frugal::engine {

/// Ring attention (Liu et al. 2023, arXiv:2310.01889): each of the r ranks that share a sequence
/// keeps the queries of its part, and keys and values travel around a ring. While a rank computes
/// with one part's, it sends these on and receives the next: 2 · groups · d/t · s/r · b elements in
/// each of r − 1 steps. In backward the gradients of keys and values travel with them in
/// accumulation type, and one step further, home.
///
/// What a causal rank computes follows from the positions that it and the others have
/// (engine/model/positions.h):
///
/// - Contiguous parts, as the paper has them. A rank computes half of its own part, and all parts
///   before it. So the last rank computes (2r − 1)/r of the mean, and the others wait for it.
/// - An early and a late piece, ContextKind::zigzag. Of a rank before it all queries see the early
///   half of the keys, of one behind it the late half of the queries sees all keys. So in every
///   step after the first each rank computes half of a block.
///
/// The r may each be one of several that divide heads (UlyssesCore), each with a ring for its own.
///
/// A rank that stands for all is the last one (engine/cluster/lone.cpp).
///
/// Keeps qkv and the logarithmic sums over all columns.
class RingCore final : public FusedCore {
 public:
  using FusedCore::FusedCore;

  /// The scores of a block that a rank's queries see, a rectangle: of the queries from row
  /// `first_query` on with the first `keys` keys. The others are hidden.
  struct Seen {
    int64_t first_query = 0, keys = 0;
    bool any() const { return keys > 0; }
  };
  /// Queries and keys of the part that is there after so many steps.
  static Seen seen(const Rank& rank, int step);

  Tensor forward(const Pass& pass, Saved& saved) const override;
  Tensor backward(const Pass& pass, Tensor dcontext, Tensor context, Saved saved) const override;

 private:
  /// Keys and values of a part of the sequence, [s/r, b, groups · 2 · d].
  Tensor allocate_block(const Pass& pass, const View& qkv, DType type) const;
  Tensor own_block(const Pass& pass, const View& qkv) const;
  HeadViews block_views() const { return {0, views_.head_size()}; }

  /// Attention of the queries of `qkv`, rows of a rank's, with the first `keys` keys and values
  /// that have come in this step, which all of them see: in the first the rank's own, then a
  /// block's.
  FusedAttention operation(const Pass& pass, int step, int64_t keys, const View& qkv,
                           const View& block, const View& context, const View& log_sum_exp) const;
  /// Makes the first step's context [s/r, b, groups · G · d] in accumulation type.
  Tensor begin(const Pass& pass, const View& qkv, const View& log_sum_exp) const;
  /// Adds what is seen of a later step's block.
  void add(const Pass& pass, int step, const Seen& seen, const View& qkv, const View& block,
           const View& context, const View& log_sum_exp) const;
  /// Computes the gradients of the queries, keys and values that are seen in this step, in the same
  /// rows of `part` [s/r, b, groups · (G + 2) · d]. late [b · heads, s/2r]: the logarithmic sums of
  /// the late piece's queries, where there are two.
  void differentiate(const Pass& pass, int step, const Seen& seen, const Saved& saved,
                     const View& late, const View& block, const View& context, const View& dcontext,
                     const View& part) const;
};

}  // namespace frugal::engine
