#include "engine/model/positions.h"

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
