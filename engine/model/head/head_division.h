#pragma once
#include <vector>

#include "engine/config.h"
#include "engine/model/head/head_views.h"

namespace frugal::engine {

/// How the heads of a tensor-parallel rank are divided among the u ranks that do so
/// (DeepSpeed-Ulysses, arXiv:2309.14509, section 3.1): rank i has the a/(t·u) heads of queries from
/// number i · a/(t·u) on, with the heads of keys and values that these use. Where there are fewer
/// of the latter than ranks (grouped queries), several ranks have the same one.
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
  /// Of qkv [s/c, b, groups · (G + 2) · d], what one rank alone has: everything, or where several
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

}  // namespace frugal::engine
