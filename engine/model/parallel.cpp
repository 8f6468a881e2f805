#include "engine/model/parallel.h"

#include <algorithm>

namespace frugal::engine {

Positions Positions::of_ring_part(const RunConfig& config, int part) {
  const int64_t count = config.ring_piece();
  const Piece early{0, part * count, count};
  if (!config.has_two_pieces()) return Positions({early});
  const int64_t late = int64_t{2} * config.ring_ranks() - 1 - part;
  return Positions({early, {count, late * count, count}});
}

Positions Positions::of_context_rank(const RunConfig& config, int rank) {
  const int ranks = config.head_ranks();
  const int64_t count = config.group_sequence();
  return of_ring_part(config, rank / ranks).of_rows(rank % ranks * count, count);
}

Positions Positions::of_rows(int64_t begin, int64_t count) const {
  std::vector<Piece> some;
  for (const Piece& piece : pieces_) {
    const int64_t from = std::max(begin, piece.row);
    const int64_t to = std::min(begin + count, piece.row + piece.count);
    if (from < to) some.push_back({from - begin, piece.first + from - piece.row, to - from});
  }
  return Positions(std::move(some));
}

}  // namespace frugal::engine

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

/// A sum that already lies in `into` is made in place.
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
