#pragma once
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/norm_backward.cuh"
#include "kernels/cuda/ops/rows.cuh"

/// LayerNorm and RmsNorm: the latter is the former without a mean and without beta.
namespace frugal::kernels::cuda {

/// Whether the operation subtracts the mean of a row.
template <class Op>
inline constexpr bool is_centred = requires(const Op& op) {
  op.mean;
};

/// What is added to gamma.
template <class Op>
float offset_of(const Op& op) {
  if constexpr (is_centred<Op>)
    return 0;
  else
    return op.offset;
}

template <class T>
struct NormForward {
  const T *x, *gamma, *beta;
  T* y;
  Accumulator<T>*mean, *rstd;
  int64_t rows, cols;
  Accumulator<T> epsilon, offset;
};

/// The variance is that of differences from the mean, not of squares.
template <bool centred, class L, class T>
__global__ void __launch_bounds__(L::most_threads, L::least_blocks)
    norm_forward(const NormForward<T> op) {
  using A = Accumulator<T>;
  const int64_t row = L::row(), cols = op.cols;
  if (row >= op.rows) return;
  Row<L, T> of_row(op.x + row * cols, cols);
  A mean = 0, variance = 0;
  if constexpr (centred) {
    L::each(cols, [&](int k, auto j, int count) {
      A v[pack];
      of_row.get(k, j, count, v);
#pragma unroll
      for (const auto& e : v) mean += e;
    });
    mean = L::sum(mean) / static_cast<A>(cols);
    of_row.between_uses();
  }
  L::each(cols, [&](int k, auto j, int count) {
    A v[pack];
    of_row.get(k, j, count, v);
#pragma unroll
    for (int e = 0; e < pack; ++e)
      if (L::wide || e < count) variance += (v[e] - mean) * (v[e] - mean);
  });
  variance = L::sum(variance) / static_cast<A>(cols);
  of_row.between_uses();
  const A rstd = 1 / sqrt(variance + op.epsilon);
  L::each(cols, [&](int k, auto j, int count) {
    A v[pack], gains[pack], beta[pack] = {};
    of_row.get(k, j, count, v);
    load_gains<centred, L::wide>(op, j, count, gains);
    if constexpr (centred) load<L::wide>(op.beta + j, count, beta);
#pragma unroll
    for (int e = 0; e < pack; ++e) v[e] = (v[e] - mean) * rstd * gains[e] + beta[e];
    store<L::wide>(op.y + row * cols + j, count, v);
  });
  if (L::rank() != 0) return;
  if constexpr (centred) op.mean[row] = mean;
  op.rstd[row] = rstd;
}

template <class Op>
void run_norm(const Op& op, const Launch& on) {
  constexpr bool centred = is_centred<Op>;
  const int64_t rows = op.x.rows(), cols = op.x.cols();
  View beta, mean;
  if constexpr (centred) beta = op.beta, mean = op.mean;
  dispatch(
      op.x.type, all_wide(cols, op.x, op.gamma, beta, op.y), [&]<class T, class Wide>(T, Wide) {
        using A = Accumulator<T>;
        const NormForward<T> arguments{op.x.template as<T>(),
                                       op.gamma.template as<T>(),
                                       beta.as<T>(),
                                       op.y.template as<T>(),
                                       mean.as<A>(),
                                       op.rstd.template as<A>(),
                                       rows,
                                       cols,
                                       static_cast<A>(op.epsilon),
                                       static_cast<A>(offset_of(op))};
        dispatch_row<T, Wide::value, 1>(cols, [&]<class L>(L, int threads) {
          launch(on, norm_forward<centred, L, T>, row_blocks<L>(rows, threads), threads, arguments);
        });
      });
}

/// Every block sums up its rows' part of dgamma and dbeta; then the blocks' sums are added.
template <class Op>
void run_norm_backward(const Op& op, const Launch& on) {
  constexpr bool centred = is_centred<Op>;
  constexpr int parts = centred ? 2 : 1;
  const int64_t rows = op.x.rows(), cols = op.x.cols();
  View mean, dbeta;
  if constexpr (centred) mean = op.mean, dbeta = op.dbeta;
  dispatch(op.x.type, all_wide(cols, op.dy, op.x, op.gamma, op.add, op.dx),
           [&]<class T, class Wide>(T, Wide) {
             using A = Accumulator<T>;
             NormBackward<T> arguments{op.dy.template as<T>(),
                                       op.x.template as<T>(),
                                       op.gamma.template as<T>(),
                                       op.add.template as<T>(),
                                       mean.as<A>(),
                                       op.rstd.template as<A>(),
                                       op.dx.template as<T>(),
                                       nullptr,
                                       rows,
                                       cols,
                                       static_cast<A>(offset_of(op))};
             const int64_t blocks = norm_backward<centred, Wide::value>(arguments, on);
             constexpr int slices = 8;
             dispatch_either<T>(op.dgamma.type, [&]<class G>(G) {
               launch(on, add_partials<slices, A, G>, (parts * cols + warp - 1) / warp,
                      slices * warp, arguments.partial, blocks, parts * cols, cols,
                      op.dgamma.template as<G>(), dbeta.as<G>());
             });
           });
}

}  // namespace frugal::kernels::cuda
