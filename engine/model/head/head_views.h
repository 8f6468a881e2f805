#pragma once
#include "engine/model_config.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Heads inside the tensors around attention; no copy is made. qkv is [s, b, groups, G + 2, d]: for
/// each head of keys and values the G heads of queries that share it, then its keys, then its
/// values. A context is [s, b, groups, G, d]. `groups` are those that a rank has.
class HeadViews {
 public:
  explicit HeadViews(const ModelConfig& model)
      : HeadViews(model.queries_per_group(), model.head_size()) {}
  /// Views without heads of queries: keys and values alone, [s, b, groups, 2, d].
  HeadViews(int64_t heads_per_group, int64_t head_size) : heads_(heads_per_group), d_(head_size) {}

  /// [b · groups, G, s, d], or where G is 1 [b · groups, s, d].
  View queries(const View& qkv) const { return several(qkv, heads_ + 2); }
  View context(const View& context) const { return several(context, heads_); }
  /// [b · groups, s, d].
  View keys(const View& qkv) const { return one(qkv, heads_, heads_ + 2); }
  View values(const View& qkv) const { return one(qkv, heads_ + 1, heads_ + 2); }
  /// All heads of queries, and keys with values, that are side by side in each group: [s, b ·
  /// groups, G · d] and [s, b · groups, 2d].
  View side_by_side_queries(const View& qkv) const { return side_by_side(qkv, 0, heads_); }
  View side_by_side_keys_and_values(const View& qkv) const { return side_by_side(qkv, heads_, 2); }
  View side_by_side_keys(const View& qkv) const { return side_by_side(qkv, heads_, 1); }
  View side_by_side_values(const View& qkv) const { return side_by_side(qkv, heads_ + 1, 1); }
  /// Head `head` of each group: [b · groups, s, d].
  View query(const View& qkv, int64_t head) const { return one(qkv, head, heads_ + 2); }
  View context(const View& context, int64_t head) const { return one(context, head, heads_); }
  /// [s, b · groups, G + 1, d].
  View queries_and_keys(const View& qkv) const {
    const int64_t s = qkv.shape[0], row = qkv.size() / s, group = (heads_ + 2) * d_;
    return qkv.strided(0, {s, row / group, heads_ + 1, d_}, {row, group, d_, 1});
  }

  int64_t heads_per_group() const { return heads_; }
  int64_t head_size() const { return d_; }

 private:
  /// `count` heads from the `first` on in each group of queries, keys and values.
  View side_by_side(const View& x, int64_t first, int64_t count) const {
    const int64_t s = x.shape[0], row = x.size() / s, group = (heads_ + 2) * d_;
    return x.strided(first * d_, {s, row / group, count * d_}, {row, group, 1, 0});
  }
  /// Head `which` of `of` in each group.
  View one(const View& x, int64_t which, int64_t of) const {
    const int64_t s = x.shape[0], row = x.size() / s, group = of * d_;
    return x.strided(which * d_, {row / group, s, d_}, {group, row, 1, 0});
  }
  /// The first G heads of `of` in each group.
  View several(const View& x, int64_t of) const {
    if (heads_ == 1) return one(x, 0, of);
    const int64_t s = x.shape[0], row = x.size() / s, group = of * d_;
    return x.strided(0, {row / group, heads_, s, d_}, {group, d_, row, 1});
  }

  int64_t heads_, d_;
};

}  // namespace frugal::engine
