#pragma once
#include <omp.h>

#include <atomic>
#include <stdexcept>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/gemm.h"

/// What the two directions of fused attention have in common.
namespace frugal::kernels {

inline ScoreBlock score_block(const FusedAttention& op, int64_t matrix, Range rows, Range cols) {
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
inline void fill(const View& x, double value) {
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
inline bool worth_threads(const FusedAttention& op) {
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

}  // namespace frugal::kernels
