#pragma once
#include <vector>

#include "engine/rank.h"

namespace frugal::engine {

/// Positions of a sequence that the rows of a rank's tensors are: pieces in the order of their
/// rows, which is that of their positions.
class Positions {
 public:
  /// Rows next to each other that are positions next to each other.
  struct Piece {
    int64_t row;    ///< the first
    int64_t first;  ///< its position
    int64_t count;

    /// Its rows of a tensor [rows, …].
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

/// The operators at the borders of a tensor-parallel region (korthikanti2022, figures 4 and 5).
/// Each starts its collective and returns at once, so that the caller can put work beside it.
///
///          forward          backward
///   f      identity         all-reduce       into the region
///   f̄      all-reduce       identity         out of it
///   g      all-gather       reduce-scatter   into it, from shards of the sequence
///   ḡ      reduce-scatter   all-gather       out of it, into shards of the sequence
///
/// So the backward pass of each is its conjugate: f_bar undoes f, g_bar undoes g.
namespace frugal::engine::parallel {

/// A tensor that may still be on its way.
class Arriving {
 public:
  explicit Arriving(Tensor tensor) : tensor_(std::move(tensor)) {}
  Arriving(const RankAt& at, Tensor source, Tensor tensor, Pending pending)
      : beside_(at.beside),
        source_(std::move(source)),
        tensor_(std::move(tensor)),
        pending_(std::move(pending)) {}
  /// The tensor, arrived; its source is released. Until then what is beside this goes on.
  Tensor wait() {
    wait_beside(beside_, pending_);
    return arrived();
  }
  /// Waits as wait() does, but what is beside this does not go on: enough was computed beside it.
  Tensor wait_at_once() {
    pending_.wait();
    return arrived();
  }

 private:
  Tensor arrived() {
    source_.release();
    return std::move(tensor_);
  }

  Interleaving* beside_ = nullptr;
  Tensor source_, tensor_;
  Pending pending_;  // last, so that it ends before the memory goes
};

Arriving f(const RankAt& at, const Tensor& y);            // y [s, b, n], the same
Arriving f_bar(const RankAt& at, const Tensor& partial);  // [s, b, n] → Σ over ranks, in place
Arriving g(const RankAt& at, const Tensor& shard);        // [s/t, b, n] → [s, b, n]
/// [s, b, n] → [s/t, b, n], which goes to `into` where that is not empty.
Arriving g_bar(const RankAt& at, const Tensor& partial, const Tensor& into = {});

/// f or g, as the run is configured: what enters a region in forward, and its gradient in backward.
Arriving enter(const RankAt& at, const Tensor& x);
/// f̄ or ḡ: what leaves a region. Where it leaves in shards it goes to `into`, unless that is empty;
/// otherwise it is summed where it is.
Arriving leave(const RankAt& at, const Tensor& partial, const Tensor& into = {});
/// True if leaving makes a tensor of another shape: a part of the sequence.
bool leaves_in_shards(const Rank& rank);

/// Rows of the sequence that this rank holds outside the regions: s/t or s, of its part of the
/// context.
int64_t local_sequence(const Rank& rank);
/// Positions of these in the whole sequence; and of the rows in the regions.
Positions local_positions(const Rank& rank);
Positions group_positions(const Rank& rank);

}  // namespace frugal::engine::parallel
