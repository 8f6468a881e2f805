#include "kernels/cpu/attention.h"

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/scratch.h"

namespace frugal {
namespace {

constexpr int64_t worth_a_thread = 16384;  // scores; less is done before others wake up

ScoreBlock score_block(const FusedAttention& op, int64_t matrix, Range rows, Range cols) {
  return {.type = op.q.type,
          .rows = rows.count,
          .cols = cols.count,
          .first_seen = rows.begin + 1 - cols.begin,
          .element = (matrix * op.rows() + rows.begin) * op.cols() + cols.begin,
          .elements_per_row = op.cols(),
          .scale = op.scale,
          .causal = op.causal,
          .dropout = op.dropout};
}

/// x[i] = f(x[i]) for a small vector of A.
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

void check(bool failed) {
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
                 .b = rows_of(op_.k, matrix, cols),
                 .c = part_of(scores_, rows.count, cols.count),
                 .transpose_b = true},
            Gemm{.a = part_of(p_, rows.count, cols.count),
                 .b = rows_of(op_.v, matrix, cols),
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
      if (cols.count <= 0) break;
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

/// One matrix: its blocks of columns one after the other, each with all rows that see it. dk and dv
/// of a block of columns are complete when it ends, dq at the end of all.
class BackwardTask {
 public:
  BackwardTask(const FusedAttentionBackward& op, void* memory = nullptr)
      : op_(op), forward_(op.forward), blocks_(op.forward) {
    Buffers buffers(memory);
    const DType type = forward_.q.type, a = accumulation_type(type);
    const int64_t d = forward_.q.cols();
    const int64_t rows = std::min(AttentionBlocks::block_rows, forward_.rows());
    const int64_t cols = std::min(AttentionBlocks::block_cols, forward_.cols());
    scores_ = buffers.take(a, {rows, cols});
    dp_ = buffers.take(a, {rows, cols});
    dscores_ = type == a ? scores_ : buffers.take(type, {rows, cols});
    dropped_ = type == a ? dp_ : buffers.take(type, {rows, cols});
    dq_ = buffers.take(a, {forward_.rows(), d});
    dk_ = buffers.take(a, {cols, d});
    dv_ = buffers.take(a, {cols, d});
    dots_ = buffers.take(a, {forward_.rows()});
    bytes_ = buffers.bytes();
  }
  size_t bytes() const { return bytes_; }

  /// In this order: the scores and dp of a block, then what it adds to dv, dk and dq.
  std::array<Gemm, 5> products(int64_t matrix, Range rows, Range cols) const {
    const int64_t m = rows.count, n = cols.count, d = forward_.q.cols();
    const View q = rows_of(forward_.q, matrix, rows), k = rows_of(forward_.k, matrix, cols);
    const View v = rows_of(forward_.v, matrix, cols), dy = rows_of(op_.dy, matrix, rows);
    const View dropped = part_of(dropped_, m, n), dscores = part_of(dscores_, m, n);
    return {
        Gemm{.a = q, .b = k, .c = part_of(scores_, m, n), .transpose_b = true},
        Gemm{.a = dy, .b = v, .c = part_of(dp_, m, n), .transpose_b = true},
        Gemm{.a = dropped,
             .b = dy,
             .c = part_of(dv_, n, d),
             .transpose_a = true,
             .accumulate = true},
        Gemm{
            .a = dscores, .b = q, .c = part_of(dk_, n, d), .transpose_a = true, .accumulate = true},
        Gemm{.a = dscores, .b = k, .c = dq_.sliced(0, rows.begin, m), .accumulate = true}};
  }

  bool run(int64_t matrix, const CpuGemm& gemm, const Kernels& kernels) const {
    const Range all{0, forward_.rows()};
    kernels(RowDots{rows_of(op_.dy, matrix, all), rows_of(forward_.y, matrix, all), dots_});
    fill(dq_.flat(), 0);
    bool good = true;
    for (int64_t j = 0; j < blocks_.across(); ++j) {
      const Range cols = blocks_.cols(j);
      const View dk = part_of(dk_, cols.count, dk_.cols());
      const View dv = part_of(dv_, cols.count, dv_.cols());
      fill(dk.flat(), 0);
      fill(dv.flat(), 0);
      for (int64_t i = 0; i < blocks_.down(); ++i) {
        const Range rows = blocks_.rows(i), seen = blocks_.seen(rows, j);
        if (seen.count > 0) good = add(matrix, rows, seen, gemm, kernels) && good;
      }
      kernels(ScaledRows{dk, {}, rows_of(op_.dk, matrix, cols)});
      kernels(ScaledRows{dv, {}, rows_of(op_.dv, matrix, cols)});
    }
    kernels(ScaledRows{dq_, {}, rows_of(op_.dq, matrix, all)});
    return good;
  }

 private:
  bool add(int64_t matrix, Range rows, Range cols, const CpuGemm& gemm,
           const Kernels& kernels) const {
    const auto [scores, dp, dv, dk, dq] = products(matrix, rows, cols);
    bool good = gemm.run_alone(scores) && gemm.run_alone(dp);
    kernels(ScoreGradient{
        .block = score_block(forward_, matrix, rows, cols),
        .scores = scores.c,
        .dp = dp.c,
        .log_sum_exp = forward_.log_sum_exp.sliced(0, matrix, 1).sliced(1, rows.begin, rows.count),
        .dots = dots_.sliced(0, rows.begin, rows.count),
        .dropped = dv.a,
        .dscores = dk.a});
    for (const Gemm* product : {&dv, &dk, &dq}) good = gemm.run_alone(*product) && good;
    return good;
  }

  const FusedAttentionBackward& op_;
  const FusedAttention& forward_;
  AttentionBlocks blocks_;
  View scores_, dp_, dscores_, dropped_, dq_, dk_, dv_, dots_;
  size_t bytes_ = 0;
};

/// Prepares the products of all blocks: those of the first matrix, since all are alike.
template <class Task>
void prepare(CpuGemm& gemm, const AttentionBlocks& blocks, const Task& task) {
  for (int64_t i = 0; i < blocks.down(); ++i)
    for (int64_t j = 0; j < blocks.across(); ++j) {
      const Range rows = blocks.rows(i), cols = blocks.seen(rows, j);
      if (cols.count <= 0) break;
      for (const Gemm& product : task.products(0, rows, cols)) gemm.prepare_alone(product);
    }
}

}  // namespace

void CpuAttention::run(const FusedAttention& op) {
  if (op.q.size() == 0) return;
  const AttentionBlocks blocks(op);
  const ForwardTask counted(op);
  prepare(gemm_, blocks, counted);
  std::atomic<bool> failed = false;
  // The last rows see most, so they begin.
#pragma omp parallel for schedule(dynamic) \
    collapse(2) if (op.batch() * op.rows() * op.cols() >= worth_a_thread)
  for (int64_t matrix = 0; matrix < op.batch(); ++matrix)
    for (int64_t i = blocks.down(); i > 0; --i) {
      const ForwardTask task(op, scratch(Scratch::attention, counted.bytes()));
      if (!task.run(matrix, blocks.rows(i - 1), gemm_, kernels_)) failed = true;
    }
  check(failed);
}

void CpuAttention::run(const FusedAttentionBackward& op) {
  const FusedAttention& forward = op.forward;
  if (forward.q.size() == 0) return;
  const BackwardTask counted(op);
  prepare(gemm_, AttentionBlocks(forward), counted);
  std::atomic<bool> failed = false;
#pragma omp parallel for schedule( \
    dynamic) if (forward.batch() * forward.rows() * forward.cols() >= worth_a_thread)
  for (int64_t matrix = 0; matrix < forward.batch(); ++matrix) {
    const BackwardTask task(op, scratch(Scratch::attention, counted.bytes()));
    if (!task.run(matrix, gemm_, kernels_)) failed = true;
  }
  check(failed);
}

}  // namespace frugal
