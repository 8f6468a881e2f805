#include "kernels/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/gemm.h"
#include "kernels/operations.h"
#include "kernels/support/scratch.h"

namespace frugal::kernels {
namespace {

/// Consecutive rows of a matrix.
struct Range {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
};

/// The blocks of the scores of one matrix of a FusedAttention. Their sizes decide the order of
/// sums, so they depend on nothing else.
class AttentionBlocks {
 public:
  /// The fastest of 64 to 256 by 128 to 512 on an x86-64 core with 1 MiB of second-level cache.
  static constexpr int64_t block_rows = 128, block_cols = 512;

  explicit AttentionBlocks(const FusedAttention& op) : op_(op) {}

  int64_t across() const { return (op_.cols() + block_cols - 1) / block_cols; }
  int64_t down() const { return (op_.rows() + block_rows - 1) / block_rows; }
  Range rows(int64_t i) const {
    return {i * block_rows, std::min(block_rows, op_.rows() - i * block_rows)};
  }
  Range cols(int64_t j) const {
    return {j * block_cols, std::min(block_cols, op_.cols() - j * block_cols)};
  }
  /// Columns of a block that some of the rows see, from a multiple of block_rows on, so that few
  /// different sizes come up. count is 0 if there are none.
  Range seen(Range rows, int64_t j) const {
    const Range all = cols(j);
    if (!op_.causal) return all;
    const int64_t first = op_.first_seen(rows.begin) / block_rows * block_rows;
    const int64_t begin = std::max(all.begin, first), end = std::min(all.end(), rows.end());
    return {begin, std::max<int64_t>(0, end - begin)};
  }

 private:
  const FusedAttention& op_;
};

/// Rows of one matrix of several, which are [matrices, rows, d] or [groups, heads, rows, d].
View rows_of(const View& v, int64_t matrix, Range rows) {
  const bool grouped = v.shape.dims == 4;
  const size_t row = grouped ? 2 : 1;
  const int64_t heads = grouped ? v.shape[1] : 1;
  const int64_t first = matrix / heads * v.stride[0] + (grouped ? matrix % heads * v.stride[1] : 0);
  return v.strided(first + rows.begin * v.stride[row], {rows.count, v.cols()},
                   {v.stride[row], v.stride[row + 1]});
}

/// Buffers one after the other in a thread's scratch; without memory they are only counted.
class Buffers {
 public:
  explicit Buffers(void* memory = nullptr) : memory_(static_cast<char*>(memory)) {}

  View take(DType type, const Shape& shape) {
    const View view(memory_ == nullptr ? nullptr : memory_ + bytes_, type, shape);
    bytes_ += static_cast<size_t>((view.bytes() + 63) / 64 * 64);
    return view;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

/// The beginning of a buffer as [rows, cols], contiguous.
View part_of(const View& buffer, int64_t rows, int64_t cols) {
  return {buffer.data, buffer.type, {rows, cols}};
}

ScoreBlock score_block(const FusedAttention& op, int64_t matrix, Range rows, Range cols) {
  return {.type = op.q.type,
          .rows = rows.count,
          .cols = cols.count,
          .diagonal = rows.begin - cols.begin,
          .element = (matrix * op.rows() + rows.begin) * op.cols() + cols.begin,
          .elements_per_row = op.cols(),
          .scale = op.scale,
          .causal = op.causal,
          .window = op.causal ? op.window : 0,
          .softcap = op.softcap,
          .dropout = op.dropout};
}

/// f(i, x[i]) for a small vector of A.
template <class F>
void for_each(const View& x, const F& f) {
  if (x.type == DType::f64)
    for (int64_t i = 0; i < x.size(); ++i) f(i, x.as<double>()[i]);
  else
    for (int64_t i = 0; i < x.size(); ++i) f(i, x.as<float>()[i]);
}
void fill(const View& x, double value) {
  for_each(x, [=](int64_t, auto& element) {
    element = static_cast<std::remove_reference_t<decltype(element)>>(value);
  });
}

/// Prepares the products of all blocks: those of the first matrix, since all are alike.
template <class Task>
void prepare(CpuGemm& gemm, const AttentionBlocks& blocks, const Task& task) {
  for (int64_t i = 0; i < blocks.down(); ++i)
    for (int64_t j = 0; j < blocks.across(); ++j) {
      const Range rows = blocks.rows(i), cols = blocks.seen(rows, j);
      if (cols.count == 0) continue;
      for (const Gemm& product : task.products(0, rows, cols)) gemm.prepare_alone(product);
    }
}

/// True if the work is worth waking other threads up.
bool worth_threads(const FusedAttention& op) {
  constexpr int64_t scores = 16384;
  return op.batch() * op.rows() * op.cols() >= scores;
}

/// f(i) for all of n, in parallel; throws where one says false.
template <class F>
void each_task(const FusedAttention& op, int64_t n, const F& f) {
  std::atomic<bool> failed = false;  // an exception may not leave the threads
#pragma omp parallel for schedule(dynamic) if (worth_threads(op))
  for (int64_t i = 0; i < n; ++i)
    if (!f(i)) failed = true;
  if (failed) throw std::runtime_error("cpu: oneDNN could not execute a matrix multiplication");
}

/// One block of rows of one matrix: all columns that it sees, one block after the other.
class ForwardTask {
 public:
  ForwardTask(const FusedAttention& op, void* memory = nullptr) : op_(op), blocks_(op) {
    Buffers buffers(memory);
    const DType type = op.q.type, a = accumulation_type(type);
    const int64_t rows = std::min(AttentionBlocks::block_rows, op.rows());
    const int64_t cols = std::min(AttentionBlocks::block_cols, op.cols());
    scores_ = buffers.take(a, {rows, cols});
    p_ = type == a ? scores_ : buffers.take(type, {rows, cols});
    y_ = buffers.take(a, {rows, op.q.cols()});
    largest_ = buffers.take(a, {rows});
    sum_ = buffers.take(a, {rows});
    bytes_ = buffers.bytes();
  }
  size_t bytes() const { return bytes_; }

  /// scores = q · kᵀ and y += p · v of a block.
  std::array<Gemm, 2> products(int64_t matrix, Range rows, Range cols) const {
    return {Gemm{.a = rows_of(op_.q, matrix, rows),
                 .b = rows_of(op_.k, matrix / op_.heads(), cols),
                 .c = part_of(scores_, rows.count, cols.count),
                 .transpose_b = true},
            Gemm{.a = part_of(p_, rows.count, cols.count),
                 .b = rows_of(op_.v, matrix / op_.heads(), cols),
                 .c = part_of(y_, rows.count, op_.q.cols()),
                 .accumulate = true}};
  }

  bool run(int64_t matrix, Range rows, const CpuGemm& gemm, const Kernels& kernels) const {
    const View y = part_of(y_, rows.count, op_.q.cols());
    const View largest(largest_.data, largest_.type, {rows.count});
    const View sum(sum_.data, sum_.type, {rows.count});
    fill(y.flat(), 0);
    fill(largest, -std::numeric_limits<double>::infinity());
    fill(sum, 0);
    bool good = true;
    for (int64_t j = 0; j < blocks_.across(); ++j) {
      const Range cols = blocks_.seen(rows, j);
      if (cols.count == 0) continue;
      const auto [scores, context] = products(matrix, rows, cols);
      good = gemm.run_alone(scores) && good;
      kernels(OnlineSoftmax{score_block(op_, matrix, rows, cols), scores.c, context.a, largest, sum,
                            y});
      good = gemm.run_alone(context) && good;
    }
    finish(matrix, rows, y, largest, sum, kernels);
    return good;
  }

 private:
  void finish(int64_t matrix, Range rows, const View& y, const View& largest, const View& sum,
              const Kernels& kernels) const {
    const View& result = op_.log_sum_exp;
    for_each(sum, [&]<class A>(int64_t i, A& s) {
      result.as<A>()[matrix * op_.rows() + rows.begin + i] = largest.as<A>()[i] + std::log(s);
      s = 1 / s;
    });
    kernels(ScaledRows{y, sum, rows_of(op_.y, matrix, rows)});
  }

  const FusedAttention& op_;
  AttentionBlocks blocks_;
  View scores_, p_, y_, largest_, sum_;
  size_t bytes_ = 0;
};

}  // namespace

void CpuAttention::run(const FusedAttention& op) {
  if (op.q.size() == 0) return;
  const AttentionBlocks blocks(op);
  const ForwardTask counted(op);
  prepare(gemm_, blocks, counted);
  each_task(op, op.batch() * blocks.down(), [&](int64_t i) {
    const ForwardTask task(op, scratch(Scratch::attention, counted.bytes()));
    // The last rows see most, so they begin.
    const Range rows = blocks.rows(blocks.down() - 1 - i % blocks.down());
    return task.run(i / blocks.down(), rows, gemm_, kernels_);
  });
}

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
