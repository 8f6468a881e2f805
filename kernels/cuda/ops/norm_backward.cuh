#pragma once
#include "kernels/cuda/ops/partials.cuh"
#include "kernels/cuda/ops/rows.cuh"
#include "kernels/cuda/ops/shared.cuh"

/// With normal = (x − mean) · rstd and g = dy · gain, a row's
///   dx = rstd · (g − mean(g) − normal · mean(g · normal)) + add,
/// where mean and mean(g) are 0 unless it is centred; dgamma = Σ dy · normal and dbeta = Σ dy over
/// all rows. A block works on many rows and keeps its part of these sums.
namespace frugal::kernels::cuda {

/// Reads a pack of gains: gamma, and what RmsNorm adds to it.
template <bool centred, bool wide, class Op, class A>
__device__ void load_gains(const Op& op, int64_t j, int count, A (&gains)[pack]) {
  load<wide>(op.gamma + j, count, gains);
  if constexpr (!centred) {
#pragma unroll
    for (A& gain : gains) gain += op.offset;
  }
}

template <class T>
struct NormBackward {
  const T *dy, *x, *gamma, *add;
  const Accumulator<T>*mean, *rstd;
  T* dx;
  Accumulator<T>* partial;  ///< [blocks, 1 or 2, cols]
  int64_t rows, cols;
  Accumulator<T> offset;  ///< RmsNorm's
  Accumulator<T> per_column = 1 / static_cast<Accumulator<T>>(cols);
};

/// A row's statistics and sums.
template <bool centred, class A>
struct NormRow {
  A mean = 0, rstd = 0, g = 0, gn = 0;

  template <class T>
  __device__ void read(const NormBackward<T>& op, int64_t row) {
    if constexpr (centred) mean = op.mean[row];
    rstd = op.rstd[row];
  }
  /// Adds a pack's part to the row's sums; x becomes its part of dgamma. That of dbeta is dy.
  __device__ void take(A (&x)[pack], const A (&dy)[pack], const A (&gain)[pack]) {
#pragma unroll
    for (int e = 0; e < pack; ++e) {
      x[e] = (x[e] - mean) * rstd * dy[e];
      gn += x[e] * gain[e];
      if constexpr (centred) g += dy[e] * gain[e];
    }
  }
  /// dy becomes dx without `add`, once g and gn are means.
  __device__ void give(const A (&x)[pack], A (&dy)[pack], const A (&gain)[pack]) const {
#pragma unroll
    for (int e = 0; e < pack; ++e) dy[e] = (dy[e] * gain[e] - g - (x[e] - mean) * rstd * gn) * rstd;
  }
};

/// What a thread has of a row's x and dy, as it lies in memory.
template <bool centred, int packs, class T>
struct NormPacks {
  Packed<T> x[packs], dy[packs];
  NormRow<centred, float> row;

  /// Nothing beyond the last row.
  __device__ void read(const NormBackward<T>& op, int of_row, int rank, int width) {
    if (of_row >= op.rows) return;
    const int cols = static_cast<int>(op.cols);
    const T* const from_x = op.x + int64_t{of_row} * cols;
    const T* const from_dy = op.dy + int64_t{of_row} * cols;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int j = (rank + k * width) * pack;
      if (j >= cols) continue;
      x[k].read(from_x + j);
      dy[k].read(from_dy + j);
    }
    row.read(op, of_row);
  }
  __device__ void between_uses() {
#pragma unroll
    for (int k = 0; k < packs; ++k) x[k].between_uses(), dy[k].between_uses();
  }
};

/// Sums of a thread's own columns in shared memory: 16 bytes of neighbours are next to each other,
/// so that no two of them want the same bank.
template <int packs>
struct ColumnSums {
  float4* of_block = dynamic_shared<float4>();

  __device__ float4& at(int part, int k, int half, int thread) const {
    return of_block[((part * packs + k) * 2 + half) * static_cast<int>(blockDim.x) + thread];
  }
  __device__ void clear(int part, int k) const {
    const int thread = static_cast<int>(threadIdx.x);
    at(part, k, 0, thread) = at(part, k, 1, thread) = float4{0, 0, 0, 0};
  }
  __device__ void add(int part, int k, const float (&x)[pack]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4& sum = at(part, k, half, static_cast<int>(threadIdx.x));
      const float4 before = sum;
      const float* const more = x + 4 * half;
      sum = float4{before.x + more[0], before.y + more[1], before.z + more[2], before.w + more[3]};
    }
  }
  /// Adds another thread's sums to total.
  __device__ void add_to(float (&total)[pack], int part, int k, int thread) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 more = at(part, k, half, thread);
      float* const sum = total + 4 * half;
      sum[0] += more.x, sum[1] += more.y, sum[2] += more.z, sum[3] += more.w;
    }
  }
};

/// Sums of two numbers over each team of `width` threads. All threads of the block must call it,
/// turn by turn with another `turn`: what was shown last time may still be read.
__device__ inline void sum_teams(float& a, float& b, int width, int turn) {
  FRUGAL_SHARED(float2, of_warp, [2][warp]);
  a = reduce_warp(a, Plus{});
  b = reduce_warp(b, Plus{});
  if (width == warp) return;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp;
  if (lane == 0) of_warp[turn][thread / warp] = float2{a, b};
  __syncthreads();
  const int first = thread / width * width / warp;
  const float2 mine = lane < width / warp ? of_warp[turn][first + lane] : float2{0, 0};
  a = reduce_warp(mine.x, Plus{});
  b = reduce_warp(mine.y, Plus{});
}

/// What one pack of a row adds to the row's sums and to those of the columns.
template <bool centred, class Row, class Sums, class T>
__device__ inline void take_pack(const NormBackward<T>& op, Row& row, const Packed<T>& x_in,
                                 const Packed<T>& dy_in, const Sums& sums, int k, int column) {
  float x[pack], dy[pack], gains[pack];
  x_in.get(x);
  dy_in.get(dy);
  load_gains<centred, true>(op, column, pack, gains);
  row.take(x, dy, gains);
  sums.add(0, k, x);
  if constexpr (centred) sums.add(1, k, dy);
}

/// The gradient of one pack of the input, and what is added to it.
template <bool centred, class Row, class T>
__device__ inline void give_pack(const NormBackward<T>& op, const Row& row, const Packed<T>& x_in,
                                 const Packed<T>& dy, const Packed<T>& add, int64_t at,
                                 int column) {
  float x[pack], dx[pack], gains[pack];
  x_in.get(x);
  dy.get(dx);
  load_gains<centred, true>(op, column, pack, gains);
  row.give(x, dx, gains);
  if (op.add != nullptr) {
    float more[pack];
    add.get(more);
#pragma unroll
    for (int e = 0; e < pack; ++e) dx[e] += more[e];
  }
  store<true>(op.dx + at, pack, dx);
}

/// Writes a block's sums of the columns of one pack, over its teams of `width` threads.
template <int parts, class Sums, class T>
__device__ inline void store_sums(const NormBackward<T>& op, const Sums& sums, int k, int rank,
                                  int width, int teams, int column) {
  for (int part = 0; part < parts; ++part) {
    float total[pack] = {};
    for (int other = 0; other < teams; ++other) sums.add_to(total, part, k, other * width + rank);
    store<true>(op.partial + (int64_t{blockIdx.x} * parts + part) * op.cols + column, pack, total);
  }
}

/// A block of several teams of `width` threads, each with a row at a time, of which the next one's
/// x and dy are on their way meanwhile (where there are registers for it: `ahead`).
template <bool centred, int packs, bool ahead, int threads, class T>
__global__ void __launch_bounds__(threads) norm_backward_held(const NormBackward<T> op, int width) {
  constexpr int parts = centred ? 2 : 1;
  const int cols = static_cast<int>(op.cols);
  const int team = static_cast<int>(threadIdx.x) / width;
  int rank = static_cast<int>(threadIdx.x) % width;
  const int teams = static_cast<int>(blockDim.x) / width;
  const int rows = static_cast<int>(op.rows), stride = static_cast<int>(gridDim.x) * teams;
  const auto column = [&](int k) { return (rank + k * width) * pack; };
  const ColumnSums<packs> sums;
  for (int part = 0; part < parts; ++part)
    for (int k = 0; k < packs; ++k) sums.clear(part, k);

  NormPacks<centred, packs, T> now, next;
  int row = static_cast<int>(blockIdx.x) * teams + team;
  if constexpr (ahead) next.read(op, row, rank, width);
  int turn = 0;
  for (; row - team < rows; row += stride, turn ^= 1) {
    // Addresses that depend on the column are computed again for each row, not held in registers.
    asm volatile("" : "+r"(rank));
    const int end = row < rows ? cols : 0;  // teams without a row take part in barriers
    if constexpr (ahead) {
      now = next;
      next.read(op, row + stride, rank, width);
    } else {
      now.read(op, row, rank, width);
    }
    now.row.g = now.row.gn = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= end) continue;
      take_pack<centred>(op, now.row, now.x[k], now.dy[k], sums, k, column(k));
    }
    Packed<T> add[packs];
    const auto read_add = [&](int k) {
      if (op.add != nullptr && column(k) < end)
        add[k].read(op.add + int64_t{row} * cols + column(k));
    };
    if constexpr (ahead) {  // on its way while the teams sum
#pragma unroll
      for (int k = 0; k < packs; ++k) read_add(k);
    }
    sum_teams(now.row.g, now.row.gn, width, turn);
    now.between_uses();
    now.row.g *= op.per_column;
    now.row.gn *= op.per_column;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= end) continue;
      if constexpr (!ahead) read_add(k);
      give_pack<centred>(op, now.row, now.x[k], now.dy[k], add[k], int64_t{row} * cols + column(k),
                         column(k));
    }
  }

  __syncthreads();
  for (int k = team; k < packs; k += teams)
    if (column(k) < cols) store_sums<parts>(op, sums, k, rank, width, teams, column(k));
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
  const auto held = [&]<int packs, bool ahead, int threads>(std::integral_constant<int, packs>,
                                                            std::bool_constant<ahead>,
                                                            std::integral_constant<int, threads>) {
    constexpr int two = 256;  // threads of which there are two blocks
    const int width = team_size(all, packs), teams = std::max(1, two / width);
    const int64_t blocks = blocks_of(teams, width <= two ? 2 : 1);
    const size_t shared = sizeof(float) * pack * packs * parts * static_cast<size_t>(teams * width);
    launch_with_shared(on, norm_backward_held<centred, packs, ahead, threads, T>, blocks,
                       teams * width, shared, op, width);
    return blocks;
  };
  if constexpr (wide && !std::is_same_v<T, double>) {
    constexpr int most = 8 / sizeof(T);       // packs of a thread: 32 registers for x and dy
    constexpr int threads = 512, many = 896;  // as shared memory has room for
    if (all <= warp)
      return held(std::integral_constant<int, 1>{}, std::true_type{},
                  std::integral_constant<int, threads>{});
    if (all <= most * threads)
      return held(std::integral_constant<int, most>{}, std::true_type{},
                  std::integral_constant<int, threads>{});
    constexpr size_t of_pack = sizeof(float) * pack * parts;
    if (all <= most * many && of_pack * most * many <= on.shared_memory)
      return held(std::integral_constant<int, most>{}, std::false_type{},
                  std::integral_constant<int, many>{});
  }
  const int64_t blocks = blocks_of(1, looped_blocks<T>);
  launch(on, norm_backward_looped<centred, wide, T>, blocks,
         std::min(team_size(all, 1), row_threads), op);
  return blocks;
}

}  // namespace frugal::kernels::cuda
