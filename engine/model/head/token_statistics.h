#pragma once
#include <optional>

#include "engine/pass.h"

namespace frugal::engine {

/// DType of logits.
inline DType logits_type(const RunConfig& config) {
  return config.narrow_logits ? config.type : accumulation_type(config.type);
}

/// True if one operation reads a row of logits and leaves its gradient there: a rank has all of the
/// vocabulary at once, and there will be a backward pass.
inline bool in_one_pass(const Rank& rank, const std::optional<float>& scale) {
  return scale && rank.config.narrow_logits && rank.tensor_group.size() == 1 &&
         rank.config.head_tiles == 1;
}

/// Every shard's statistics of every token: local [shards, rows, 3] → [t · shards, rows, 3]. One
/// collective, instead of one for the maximum, one for the sum and one for the label's logit.
inline Tensor gathered(const Pass& pass, const Tensor& local) {
  const int t = pass.rank.tensor_group.size();
  if (t == 1) return local;
  const Shape shape = local.shape();
  Tensor all = pass.allocate(local.type(), {t * shape[0], shape[1], shape[2]}, Kind::statistics);
  Pending gathering = pass.rank.tensor_group.all_gather(local, all);
  pass.wait(gathering);
  return all;
}

}  // namespace frugal::engine
