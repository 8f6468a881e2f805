#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_work.h"
#include "kernels/cpu/scratch.h"

namespace frugal::kernels {
namespace {

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

}  // namespace frugal::kernels
