#include <array>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_work.h"
#include "kernels/cpu/scratch.h"

namespace frugal::kernels {
namespace {

/// Gradients that a task computes.
struct Wanted {
  bool queries = true, keys = true;  ///< dq; dk and dv
};

/// Part of the matrices that share one of k and v, and of their blocks of scores. All that add to
/// what is wanted: to dq all columns, to dk and dv all rows of all these matrices.
struct Part {
  Range matrices, down, across;
};

/// Rows of the sums for dq, and columns of those for dk and dv, that lie in memory at a time: a
/// block's, or all.
struct Held {
  int64_t rows, cols;
};

/// Matrices one after the other, in each its blocks of columns, with these the blocks of rows that
/// see them. Every element of a gradient so is a sum in the same order, however work is divided.
class BackwardTask {
 public:
  BackwardTask(const FusedAttentionBackward& op, Wanted wanted, Held held, void* memory = nullptr)
      : op_(op), forward_(op.forward), blocks_(op.forward), wanted_(wanted) {
    Buffers buffers(memory);
    const DType type = forward_.q.type, a = accumulation_type(type);
    const int64_t d = forward_.q.cols();
    const int64_t rows = std::min(AttentionBlocks::block_rows, forward_.rows());
    const int64_t cols = std::min(AttentionBlocks::block_cols, forward_.cols());
    scores_ = buffers.take(a, {rows, cols});
    dp_ = buffers.take(a, {rows, cols});
    dscores_ = type == a ? scores_ : buffers.take(type, {rows, cols});
    dropped_ = type == a ? dp_ : buffers.take(type, {rows, cols});
    dq_ = buffers.take(a, {std::min(held.rows, forward_.rows()), d});
    dk_ = buffers.take(a, {std::min(held.cols, forward_.cols()), d});
    dv_ = buffers.take(a, dk_.shape);
    dots_ = buffers.take(a, {dq_.shape[0]});
    bytes_ = buffers.bytes();
  }
  size_t bytes() const { return bytes_; }

  /// Products of a block, in this order: its scores and dp, then what it adds to dv, dk and dq.
  std::array<Gemm, 5> products(int64_t matrix, Range rows, Range cols) const {
    const int64_t m = rows.count, n = cols.count, group = matrix / forward_.heads();
    const View q = rows_of(forward_.q, matrix, rows), k = rows_of(forward_.k, group, cols);
    const View v = rows_of(forward_.v, group, cols), dy = rows_of(op_.dy, matrix, rows);
    const View dropped = part_of(dropped_, m, n), dscores = part_of(dscores_, m, n);
    return {
        Gemm{.a = q, .b = k, .c = part_of(scores_, m, n), .transpose_b = true},
        Gemm{.a = dy, .b = v, .c = part_of(dp_, m, n), .transpose_b = true},
        Gemm{.a = dropped, .b = dy, .c = held(dv_, cols), .transpose_a = true, .accumulate = true},
        Gemm{.a = dscores, .b = q, .c = held(dk_, cols), .transpose_a = true, .accumulate = true},
        Gemm{.a = dscores, .b = k, .c = held(dq_, rows), .accumulate = true}};
  }

  bool run(const Part& part, const CpuGemm& gemm, const Kernels& kernels) const {
    bool good = true;
    for (int64_t matrix = part.matrices.begin; matrix < part.matrices.end(); ++matrix) {
      for (int64_t j = part.across.begin; j < part.across.end(); ++j) {
        if (wanted_.keys && matrix == part.matrices.begin)
          for (const View& sums : {dk_, dv_}) fill(held(sums, blocks_.cols(j)).flat(), 0);
        for (int64_t i = part.down.begin; i < part.down.end(); ++i)
          good = add(matrix, i, j, j == part.across.begin, gemm, kernels) && good;
        if (wanted_.keys && matrix + 1 == part.matrices.end())
          finish_keys(matrix / forward_.heads(), blocks_.cols(j), kernels);
      }
      if (!wanted_.queries) continue;
      for (int64_t i = part.down.begin; i < part.down.end(); ++i) {
        const Range rows = blocks_.rows(i);
        kernels(ScaledRows{held(dq_, rows), {}, rows_of(op_.dq, matrix, rows)});
      }
    }
    return good;
  }

 private:
  /// View of the sums of these rows, or columns.
  static View held(const View& sums, Range range) {
    return sums.sliced(0, range.begin % sums.shape[0], range.count);
  }

  /// Adds a block of scores to the gradients; `first` says that it is its rows' first here.
  bool add(int64_t matrix, int64_t i, int64_t j, bool first, const CpuGemm& gemm,
           const Kernels& kernels) const {
    const Range rows = blocks_.rows(i), cols = blocks_.seen(rows, j);
    if (cols.count == 0) return true;
    const View dots = held(dots_, rows);
    if (first || blocks_.seen(rows, j - 1).count == 0) {
      kernels(RowDots{rows_of(op_.dy, matrix, rows), rows_of(forward_.y, matrix, rows), dots});
      fill(held(dq_, rows).flat(), 0);
    }
    const auto [scores, dp, dv, dk, dq] = products(matrix, rows, cols);
    bool good = gemm.run_alone(scores) && gemm.run_alone(dp);
    const View log_sum_exp =
        forward_.log_sum_exp.flat().sliced(0, matrix * forward_.rows() + rows.begin, rows.count);
    kernels(ScoreGradient{.block = score_block(forward_, matrix, rows, cols),
                          .scores = scores.c,
                          .dp = dp.c,
                          .log_sum_exp = log_sum_exp,
                          .dots = dots,
                          .dropped = dv.a,
                          .dscores = dk.a});
    if (wanted_.keys) good = gemm.run_alone(dv) && gemm.run_alone(dk) && good;
    if (wanted_.queries) good = gemm.run_alone(dq) && good;
    return good;
  }

  void finish_keys(int64_t group, Range cols, const Kernels& kernels) const {
    kernels(ScaledRows{held(dk_, cols), {}, rows_of(op_.dk, group, cols)});
    kernels(ScaledRows{held(dv_, cols), {}, rows_of(op_.dv, group, cols)});
  }

  const FusedAttentionBackward& op_;
  const FusedAttention& forward_;
  AttentionBlocks blocks_;
  Wanted wanted_;
  View scores_, dp_, dscores_, dropped_, dq_, dk_, dv_, dots_;
  size_t bytes_ = 0;
};

/// True if threads that compute dk and dv by blocks of columns and then dq by blocks of rows, which
/// takes 4 + 3 products, are done before those that compute all gradients of a group with 5.
bool better_divided(const FusedAttention& op, const AttentionBlocks& blocks) {
  const auto threads = static_cast<int64_t>(omp_get_max_threads());
  const auto rounds = [threads](int64_t tasks) { return (tasks + threads - 1) / threads; };
  const int64_t across = blocks.across(), down = op.heads() * blocks.down();
  // All times across · down, so that the numbers stay whole.
  const int64_t by_cols = rounds(op.groups() * across) * down;
  const int64_t by_rows = rounds(op.groups() * down) * across;
  const int64_t whole = rounds(op.groups()) * across * down;
  return worth_threads(op) && 4 * by_cols + 3 * by_rows < 5 * whole;
}

}  // namespace

void CpuAttention::run(const FusedAttentionBackward& op) {
  const FusedAttention& forward = op.forward;
  if (forward.q.size() == 0) return;
  const AttentionBlocks blocks(forward);
  const int64_t heads = forward.heads(), down = blocks.down(), across = blocks.across();
  constexpr Held block{AttentionBlocks::block_rows, AttentionBlocks::block_cols};
  prepare(gemm_, blocks, BackwardTask(op, {}, block));
  const auto each = [&](Wanted wanted, Held held, int64_t tasks, const auto& part_of_task) {
    const BackwardTask counted(op, wanted, held);
    each_task(forward, tasks, [&](int64_t i) {
      const BackwardTask task(op, wanted, held, scratch(Scratch::attention, counted.bytes()));
      return task.run(part_of_task(i), gemm_, kernels_);
    });
  };
  if (!better_divided(forward, blocks)) {
    const Held all{forward.rows(), heads == 1 ? block.cols : forward.cols()};
    each({}, all, forward.groups(), [=](int64_t group) {
      return Part{{group * heads, heads}, {0, down}, {0, across}};
    });
    return;
  }
  each({.queries = false}, block, forward.groups() * across, [=](int64_t i) {
    return Part{{i / across * heads, heads}, {0, down}, {i % across, 1}};
  });
  each({.keys = false}, block, forward.batch() * down, [=](int64_t i) {
    return Part{{i / down, 1}, {i % down, 1}, {0, across}};
  });
}

}  // namespace frugal::kernels
