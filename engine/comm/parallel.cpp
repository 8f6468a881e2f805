#include "engine/comm/parallel.h"

namespace frugal::engine::parallel {
namespace {

Shape with_first_extent(const Shape& shape, int64_t extent) {
  Shape result = shape;
  result.extent[0] = extent;
  return result;
}

}  // namespace

Arriving f(const RankAt&, const Tensor& y) { return Arriving(y); }

Arriving f_bar(const RankAt& at, const Tensor& partial) {
  if (at.rank.tensor_group.size() == 1) return Arriving(partial);
  return {{}, partial, at.rank.tensor_group.all_reduce(partial)};
}

Arriving g(const RankAt& at, const Tensor& shard) {
  const int t = at.rank.tensor_group.size();
  if (t == 1) return Arriving(shard);
  Tensor all = at.allocate(shard.type(), with_first_extent(shard.shape(), shard.shape()[0] * t),
                           Kind::communication);
  Pending pending = at.rank.tensor_group.all_gather(shard, all);
  return {shard, std::move(all), std::move(pending)};
}

Arriving g_bar(const RankAt& at, const Tensor& partial, const Tensor& into) {
  const int t = at.rank.tensor_group.size();
  if (t == 1) return Arriving(partial);
  Tensor shard =
      into.empty()
          ? at.allocate(partial.type(), with_first_extent(partial.shape(), partial.shape()[0] / t))
          : into;
  Pending pending = at.rank.tensor_group.reduce_scatter(partial, shard);
  return {partial, std::move(shard), std::move(pending)};
}

Arriving enter(const RankAt& at, const Tensor& x) {
  return at.rank.config.sequence_parallel ? g(at, x) : f(at, x);
}

/// What already lies in `into` stays there: a sum is made in place.
Arriving leave(const RankAt& at, const Tensor& partial, const Tensor& into) {
  return at.rank.config.sequence_parallel ? g_bar(at, partial, into) : f_bar(at, partial);
}

bool leaves_in_shards(const Rank& rank) {
  return rank.config.sequence_parallel && rank.tensor_group.size() > 1;
}

int64_t local_sequence(const Rank& rank) { return rank.config.local_sequence(); }

int64_t first_position(const Rank& rank) {
  const RunConfig& c = rank.config;
  const int64_t context = rank.groups.context.rank() * c.group_sequence();
  return context + (c.sequence_parallel ? rank.tensor_group.rank() * local_sequence(rank) : 0);
}

}  // namespace frugal::engine::parallel
