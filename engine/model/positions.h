#pragma once
#include <vector>

#include "engine/config.h"
#include "kernels/view.h"

namespace frugal::engine {

/// Which positions of a sequence the rows of a rank's tensors are: pieces in the order of their
/// rows, which is that of their positions.
class Positions {
 public:
  /// Rows next to each other that are positions next to each other.
  struct Piece {
    int64_t row;    ///< the first
    int64_t first;  ///< its position
    int64_t count;

    /// These rows of a tensor [rows, …].
    View of(const View& x) const { return x.sliced(0, row, count); }
  };

  /// All s/r that group i of a ring of r has: one piece, part i of r, or with ContextKind::zigzag
  /// parts i and 2r − 1 − i of 2r.
  static Positions of_ring_part(const RunConfig& config, int part);
  /// All s/c that a rank has of the c that share every sequence: of a group's rows, which its u
  /// ranks have one after the other, its own. So what they exchange arrives as the group's rows.
  static Positions of_context_rank(const RunConfig& config, int rank);

  /// Positions of `count` rows from the `begin`-th on, which is row 0 then.
  Positions of_rows(int64_t begin, int64_t count) const;

  auto begin() const { return pieces_.begin(); }
  auto end() const { return pieces_.end(); }
  const Piece& front() const { return pieces_.front(); }
  const Piece& back() const { return pieces_.back(); }

 private:
  explicit Positions(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<Piece> pieces_;
};

}  // namespace frugal::engine
