#pragma once
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/norm_held.cuh"
#include "kernels/cuda/ops/rows.cuh"

/// LayerNorm and RmsNorm: the latter is the former without a mean and without beta.
namespace frugal::kernels::cuda {

/// A row of x and dy as it lies in memory, a block at a time; the sums of columns are in shared
/// memory, for rows too long for registers to hold them.
template <bool centred, int packs, int threads, class T>
__global__ void __launch_bounds__(threads) norm_backward_shared(const NormBackward<T> op) {
  constexpr int parts = centred ? 2 : 1;
  const int cols = static_cast<int>(op.cols), width = static_cast<int>(blockDim.x);
  int rank = static_cast<int>(threadIdx.x);
  const auto column = [&](int k) { return (rank + k * width) * pack; };
  const ColumnSums<packs> sums;
  for (int part = 0; part < parts; ++part)
    for (int k = 0; k < packs; ++k) sums.set(part, k, {});

  int turn = 0;
  for (int64_t row = blockIdx.x; row < op.rows; row += gridDim.x, turn ^= 1) {
    // Addresses that depend on the column are computed again for each row, not held in registers.
    asm volatile("" : "+r"(rank));
    NormRow<centred, float> of_row;
    Packed<T> x_in[packs], dy_in[packs];
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= cols) continue;
      x_in[k].read(op.x + row * cols + column(k));
      dy_in[k].read(op.dy + row * cols + column(k));
    }
    of_row.read(op, row);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= cols) continue;
      float x[pack], dy[pack], gains[pack];
      x_in[k].get(x);
      dy_in[k].get(dy);
      load_gains<centred, true>(op, column(k), pack, gains);
      of_row.take(x, dy, gains);
      sums.add(0, k, x);
      if constexpr (centred) sums.add(1, k, dy);
    }
    sum_teams(of_row.g, of_row.gn, width, turn);
    of_row.g *= op.per_column;
    of_row.gn *= op.per_column;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      x_in[k].between_uses(), dy_in[k].between_uses();
      if (column(k) >= cols) continue;
      float x[pack], dx[pack], gains[pack], add[pack] = {};
      x_in[k].get(x);
      dy_in[k].get(dx);
      load_gains<centred, true>(op, column(k), pack, gains);
      if (op.add != nullptr) load<true>(op.add + row * cols + column(k), pack, add);
      of_row.give(x, dx, gains);
#pragma unroll
      for (int e = 0; e < pack; ++e) dx[e] += add[e];
      store<true>(op.dx + row * cols + column(k), pack, dx);
    }
  }
  store_sums<parts>(op, sums, width);
}

/// Blocks of a multiprocessor.
template <class T>
constexpr int looped_blocks = std::is_same_v<T, double> ? 1 : 2;

/// A row at a time, of any length and alignment, read twice; the sums of columns are in memory.
template <bool centred, bool wide, class T>
__global__ void __launch_bounds__(row_threads, looped_blocks<T>)
    norm_backward_looped(const NormBackward<T> op) {
  using A = Accumulator<T>;
  using L = RowLayout<0, false, wide>;
  const int64_t cols = op.cols;
  A* const to_gamma = op.partial + blockIdx.x * cols * (centred ? 2 : 1);
  A* const to_beta = to_gamma + cols;
  for (int64_t row = blockIdx.x; row < op.rows; row += gridDim.x) {
    const auto add = [fresh = row == blockIdx.x](A* sums, int count, const A(&x)[pack]) {
#pragma unroll
      for (int e = 0; e < pack; ++e)
        if (e < count) sums[e] = (fresh ? A{0} : sums[e]) + x[e];
    };
    const T *const x_row = op.x + row * cols, *const dy_row = op.dy + row * cols;
    NormRow<centred, A> of_row;
    of_row.read(op, row);
    L::each(cols, [&](int, int64_t j, int count) {
      A x[pack], dy[pack], gains[pack];
      load<wide>(x_row + j, count, x);
      load<wide>(dy_row + j, count, dy);
      load_gains<centred, wide>(op, j, count, gains);
      of_row.take(x, dy, gains);
      add(to_gamma + j, count, x);
      if constexpr (centred) add(to_beta + j, count, dy);
    });
    if constexpr (centred) of_row.g = sum_block(of_row.g) * op.per_column;
    of_row.gn = sum_block(of_row.gn) * op.per_column;
    L::each(cols, [&](int, int64_t j, int count) {
      A x[pack], dx[pack], gains[pack], add[pack] = {};
      load<wide>(x_row + j, count, x);
      load<wide>(dy_row + j, count, dx);
      load_gains<centred, wide>(op, j, count, gains);
      if (op.add != nullptr) load<wide>(op.add + row * cols + j, count, add);
      of_row.give(x, dx, gains);
#pragma unroll
      for (int e = 0; e < pack; ++e) dx[e] += add[e];
      store<wide>(op.dx + row * cols + j, count, dx);
    });
  }
}

/// Launches what suits the row; sets op.partial. Returns the number of blocks.
template <bool centred, bool wide, class T>
int64_t norm_backward(NormBackward<T>& op, const Launch& on) {
  constexpr int parts = centred ? 2 : 1;
  const int64_t all = (op.cols + pack - 1) / pack;
  const auto blocks_of = [&](int64_t teams, int64_t per_multiprocessor) {
    const int64_t blocks = blocks_for(on, (op.rows + teams - 1) / teams, per_multiprocessor);
    op.partial = on.scratch->take<Accumulator<T>>(static_cast<size_t>(blocks * parts * op.cols));
    return blocks;
  };
  if constexpr (wide && !std::is_same_v<T, double>) {
    using Packs = HeldPacks<centred, T>;
    constexpr int most = Packs::most, many = 896;
    int64_t blocks = 0;
    const auto held = [&]<int packs>(std::integral_constant<int, packs>) {
      constexpr int resident = Packs::resident(packs);
      const auto shape = held_shape<packs, T>(all, resident, op.add != nullptr, on);
      if (shape.ahead == 0) return false;
      blocks = blocks_of(shape.teams, shape.blocks);
      launch_with_shared(on, norm_backward_held<centred, packs, resident, T>, blocks,
                         shape.teams * shape.width, shape.shared, op, shape.width, shape.ahead);
      return true;
    };
    const int packs = Packs::of(all);
    if (packs == 1             ? held(std::integral_constant<int, 1>{})
        : packs == Packs::less ? held(std::integral_constant<int, Packs::less>{})
                               : held(std::integral_constant<int, most>{}))
      return blocks;
    const int width = team_size(all, most);
    const size_t shared = sizeof(float) * pack * parts * most * static_cast<size_t>(width);
    if (width <= many && shared <= on.shared_memory) {
      blocks = blocks_of(1, 1);
      launch_with_shared(on, norm_backward_shared<centred, most, many, T>, blocks, width, shared,
                         op);
      return blocks;
    }
  }
  const int64_t blocks = blocks_of(1, looped_blocks<T>);
  launch(on, norm_backward_looped<centred, wide, T>, blocks,
         std::min(team_size(all, 1), row_threads), op);
  return blocks;
}

/// True for an operation that subtracts the mean of a row.
template <class Op>
inline constexpr bool is_centred = requires(const Op& op) {
  op.mean;
};

/// Summand of gamma.
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
