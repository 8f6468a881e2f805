#include <array>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_work.h"
#include "kernels/cpu/scratch.h"

namespace frugal {
namespace {

/// Which gradients a task computes.
struct Wanted {
  bool queries = true, keys = true;  ///< dq; dk and dv
};

/// Part of the matrices that share one of k and v, and of their blocks of scores. All that add to
/// what is wanted: to dq all columns, to dk and dv all rows of all these matrices.
struct Part {
  Range matrices, down, across;
};

/// Matrices one after the other, in each its blocks of rows, with these the blocks of columns that
/// they see. Every element of a gradient so is a sum in the same order, however the work is
/// divided.
class BackwardTask {
 public:
  /// `cols`: of how many columns it is to compute dk and dv, whole blocks from a block on or all.
  BackwardTask(const FusedAttentionBackward& op, Wanted wanted, int64_t cols,
               void* memory = nullptr)
      : op_(op), forward_(op.forward), blocks_(op.forward), wanted_(wanted) {
    Buffers buffers(memory);
    const DType type = forward_.q.type, a = accumulation_type(type);
    const int64_t d = forward_.q.cols();
    const int64_t rows = std::min(AttentionBlocks::block_rows, forward_.rows());
    const int64_t block_cols = std::min(AttentionBlocks::block_cols, forward_.cols());
    scores_ = buffers.take(a, {rows, block_cols});
    dp_ = buffers.take(a, {rows, block_cols});
    dscores_ = type == a ? scores_ : buffers.take(type, {rows, block_cols});
    dropped_ = type == a ? dp_ : buffers.take(type, {rows, block_cols});
    dq_ = buffers.take(a, {rows, d});
    dk_ = buffers.take(a, {std::min(cols, forward_.cols()), d});
    dv_ = buffers.take(a, dk_.shape);
    dots_ = buffers.take(a, {rows});
    bytes_ = buffers.bytes();
  }
  size_t bytes() const { return bytes_; }

  /// In this order: the scores and dp of a block, then what it adds to dv, dk and dq.
  std::array<Gemm, 5> products(int64_t matrix, Range rows, Range cols) const {
    const int64_t m = rows.count, n = cols.count, group = matrix / forward_.heads();
    const View q = rows_of(forward_.q, matrix, rows), k = rows_of(forward_.k, group, cols);
    const View v = rows_of(forward_.v, group, cols), dy = rows_of(op_.dy, matrix, rows);
    const View dropped = part_of(dropped_, m, n), dscores = part_of(dscores_, m, n);
    const View dk = dk_.sliced(0, cols.begin % dk_.shape[0], n);
    const View dv = dv_.sliced(0, cols.begin % dv_.shape[0], n);
    const View dq = part_of(dq_, m, dq_.cols());
    return {Gemm{.a = q, .b = k, .c = part_of(scores_, m, n), .transpose_b = true},
            Gemm{.a = dy, .b = v, .c = part_of(dp_, m, n), .transpose_b = true},
            Gemm{.a = dropped, .b = dy, .c = dv, .transpose_a = true, .accumulate = true},
            Gemm{.a = dscores, .b = q, .c = dk, .transpose_a = true, .accumulate = true},
            Gemm{.a = dscores, .b = k, .c = dq, .accumulate = true}};
  }

  bool run(const Part& part, const CpuGemm& gemm, const Kernels& kernels) const {
    if (wanted_.keys) {
      fill(dk_.flat(), 0);
      fill(dv_.flat(), 0);
    }
    bool good = true;
    for (int64_t matrix = part.matrices.begin; matrix < part.matrices.end(); ++matrix)
      for (int64_t i = part.down.begin; i < part.down.end(); ++i)
        good = run_rows(part, matrix, blocks_.rows(i), gemm, kernels) && good;
    if (!wanted_.keys) return good;
    const int64_t group = part.matrices.begin / forward_.heads();
    const int64_t begin = blocks_.cols(part.across.begin).begin;
    const Range cols{begin, blocks_.cols(part.across.end() - 1).end() - begin};
    kernels(ScaledRows{dk_.sliced(0, 0, cols.count), {}, rows_of(op_.dk, group, cols)});
    kernels(ScaledRows{dv_.sliced(0, 0, cols.count), {}, rows_of(op_.dv, group, cols)});
    return good;
  }

 private:
  bool run_rows(const Part& part, int64_t matrix, Range rows, const CpuGemm& gemm,
                const Kernels& kernels) const {
    if (part.across.count == 1 && blocks_.seen(rows, part.across.begin).count == 0) return true;
    const View dq = part_of(dq_, rows.count, dq_.cols()), dots = dots_.sliced(0, 0, rows.count);
    kernels(RowDots{rows_of(op_.dy, matrix, rows), rows_of(forward_.y, matrix, rows), dots});
    fill(dq.flat(), 0);
    bool good = true;
    for (int64_t j = part.across.begin; j < part.across.end(); ++j) {
      const Range cols = blocks_.seen(rows, j);
      if (cols.count > 0) good = add(matrix, rows, cols, dots, gemm, kernels) && good;
    }
    if (wanted_.queries) kernels(ScaledRows{dq, {}, rows_of(op_.dq, matrix, rows)});
    return good;
  }

  bool add(int64_t matrix, Range rows, Range cols, const View& dots, const CpuGemm& gemm,
           const Kernels& kernels) const {
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

  const FusedAttentionBackward& op_;
  const FusedAttention& forward_;
  AttentionBlocks blocks_;
  Wanted wanted_;
  View scores_, dp_, dscores_, dropped_, dq_, dk_, dv_, dots_;
  size_t bytes_ = 0;
};

/// Whether threads that compute dk and dv by blocks of columns and then dq by blocks of rows, which
/// takes 4 + 3 products, are done before those that compute all gradients of a group with 5.
bool better_divided(const FusedAttention& op, const AttentionBlocks& blocks) {
  const auto threads = static_cast<int64_t>(omp_get_max_threads());
  const auto rounds = [threads](int64_t tasks) {
    return static_cast<double>((tasks + threads - 1) / threads);
  };
  const double by_cols =
      rounds(op.groups() * blocks.across()) / static_cast<double>(blocks.across());
  const double by_rows =
      rounds(op.batch() * blocks.down()) / static_cast<double>(op.heads() * blocks.down());
  return worth_threads(op) && 4 * by_cols + 3 * by_rows < 5 * rounds(op.groups());
}

}  // namespace

void CpuAttention::run(const FusedAttentionBackward& op) {
  const FusedAttention& forward = op.forward;
  if (forward.q.size() == 0) return;
  const AttentionBlocks blocks(forward);
  const int64_t heads = forward.heads(), down = blocks.down(), across = blocks.across();
  prepare(gemm_, blocks, BackwardTask(op, {}, forward.cols()));
  const auto each = [&](Wanted wanted, int64_t cols, int64_t tasks, const auto& part_of_task) {
    const BackwardTask counted(op, wanted, cols);
    each_task(forward, tasks, [&](int64_t i) {
      const BackwardTask task(op, wanted, cols, scratch(Scratch::attention, counted.bytes()));
      return task.run(part_of_task(i), gemm_, kernels_);
    });
  };
  if (!better_divided(forward, blocks)) {
    each({}, forward.cols(), forward.groups(), [=](int64_t group) {
      return Part{{group * heads, heads}, {0, down}, {0, across}};
    });
    return;
  }
  constexpr int64_t block = AttentionBlocks::block_cols;
  each({.queries = false}, block, forward.groups() * across, [=](int64_t i) {
    return Part{{i / across * heads, heads}, {0, down}, {i % across, 1}};
  });
  each({.keys = false}, block, forward.batch() * down, [=](int64_t i) {
    return Part{{i / down, 1}, {i % down, 1}, {0, across}};
  });
}

}  // namespace frugal
