#pragma once
#include "engine/model/attention/attention_core.h"

namespace frugal::engine {

/// Division of a tensor-parallel rank's heads among u ranks (DeepSpeed-Ulysses, arXiv:2309.14509,
/// section 3.1): rank i has the a/(t·u) heads of queries from number i · a/(t·u) on, with the heads
/// of keys and values that these use. Where there are fewer of the latter than ranks (grouped
/// queries), several ranks have the same one.
///
/// Columns are exchanged as [u, s/c · b, columns()], what each rank has one after the other.
class HeadDivision {
 public:
  explicit HeadDivision(const RunConfig& config);

  /// The heads of one rank.
  HeadViews own() const { return {queries_ / groups_of_rank_, d_}; }
  int64_t ranks() const { return ranks_; }
  /// Columns of queries, keys and values together, a rank's and all ranks'.
  int64_t columns() const { return (queries_ + 2 * groups_of_rank_) * d_; }
  int64_t all_columns() const { return (queries_ * ranks_ + 2 * groups_) * d_; }

  /// Views of the same elements in a tensor of all heads, and in one that is divided.
  struct Pair {
    View all, divided;
  };
  /// Columns of qkv [s/c, b, groups · (G + 2) · d] that one rank alone has: all, or where several
  /// have the same keys and values, the queries.
  Pair of_one(const View& qkv, const View& divided) const;
  /// Keys and values that several ranks have, [groups, s/c · b, 2d] for each of them; otherwise
  /// none.
  std::vector<Pair> of_several(const View& qkv, const View& divided) const;
  /// x [s/c, b, n] as [u, s/c · b, n/u]: consecutive columns for each rank.
  View evenly(const View& x) const;

 private:
  int64_t ranks_, d_;
  int64_t groups_;          ///< of all heads
  int64_t groups_of_rank_;  ///< of one rank
  int64_t queries_;         ///< heads of queries of one rank
};

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
