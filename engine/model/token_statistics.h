#pragma once
#include "engine/rank.h"

namespace frugal {

/// Every shard's statistics of every token: local [shards, rows, 3] → [t · shards, rows, 3]. One
/// collective, instead of one for the maximum, one for the sum and one for the label's logit.
inline Tensor gathered(Rank& rank, const Tensor& local) {
  const int t = rank.tensor_group.size();
  if (t == 1) return local;
  const Shape shape = local.shape();
  Tensor all = rank.allocate(local.type(), {t * shape[0], shape[1], shape[2]}, Kind::statistics);
  rank.tensor_group.all_gather(local, all).wait();
  return all;
}

}  // namespace frugal
