#include "engine/model/parallel.h"

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
  return {at, {}, partial, at.rank.tensor_group.all_reduce(partial)};
}

Arriving g(const RankAt& at, const Tensor& shard) {
  const int t = at.rank.tensor_group.size();
  if (t == 1) return Arriving(shard);
  Tensor all = at.allocate(shard.type(), with_first_extent(shard.shape(), shard.shape()[0] * t),
                           Kind::communication);
  Pending pending = at.rank.tensor_group.all_gather(shard, all);
  return {at, shard, std::move(all), std::move(pending)};
}

Arriving g_bar(const RankAt& at, const Tensor& partial, const Tensor& into) {
  const int t = at.rank.tensor_group.size();
  if (t == 1) return Arriving(partial);
  Tensor shard =
      into.empty()
          ? at.allocate(partial.type(), with_first_extent(partial.shape(), partial.shape()[0] / t))
          : into;
  Pending pending = at.rank.tensor_group.reduce_scatter(partial, shard);
  return {at, partial, std::move(shard), std::move(pending)};
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

Positions group_positions(const Rank& rank) {
  return Positions::of_context_rank(rank.config, rank.groups.context.rank());
}

Positions local_positions(const Rank& rank) {
  const int64_t count = local_sequence(rank);
  const int shard = rank.config.sequence_parallel ? rank.tensor_group.rank() : 0;
  return group_positions(rank).of_rows(shard * count, count);
}

}  // namespace frugal::engine::parallel
