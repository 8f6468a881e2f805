#pragma once
#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/rows.cuh"
#include "kernels/cuda/ops/shared.cuh"

/// LayerNorm and RmsNorm: the latter is the former without a mean and without beta.
///
/// Backward, with normal = (x − mean) · rstd and g = dy · gain, a row's
///   dx = rstd · (g − mean(g) − normal · mean(g · normal)) + add,
/// where mean and mean(g) are 0 unless it is centred; dgamma = Σ dy · normal and dbeta = Σ dy over
/// all rows. A block works on many rows and keeps its part of these sums.
namespace frugal::kernels::cuda {

/// first[c] or, from column `cols` on, second[c − cols] += Σ partial[b, c] over the blocks, of
/// which `slices` parts are summed by a warp each. A block has 32 columns.
template <int slices, class A, class G>
__global__ void __launch_bounds__(slices* warp)
    add_partials(const A* partial, int64_t blocks, int64_t width, int64_t cols, G* first,
                 G* second) {
  FRUGAL_SHARED(A, of_slice, [slices][warp]);
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int slice = static_cast<int>(threadIdx.x) / warp;
  const int64_t column = int64_t{blockIdx.x} * warp + lane;
  A sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int64_t b = slice; b < blocks; b += slices) sum += partial[b * width + column];
  }
  of_slice[slice][lane] = sum;
  __syncthreads();
  if (slice != 0 || column >= width) return;
  G* const to = column < cols ? first + column : second + (column - cols);
  A total = to_wide(*to);
#pragma unroll
  for (int s = 0; s < slices; ++s) total += of_slice[s][lane];
  *to = to_stored<G>(total);
}

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
    const A from_g = rstd * g, from_gn = rstd * rstd * gn;
#pragma unroll
    for (int e = 0; e < pack; ++e)
      dy[e] = dy[e] * gain[e] * rstd - from_g - (x[e] - mean) * from_gn;
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
  __device__ void set(int part, int k, const float (&x)[pack]) const {
    const int thread = static_cast<int>(threadIdx.x);
    at(part, k, 0, thread) = float4{x[0], x[1], x[2], x[3]};
    at(part, k, 1, thread) = float4{x[4], x[5], x[6], x[7]};
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

/// Writes a block's sums of the columns, over its teams of `width` threads.
template <int parts, int packs, class T>
__device__ inline void store_sums(const NormBackward<T>& op, const ColumnSums<packs>& sums,
                                  int width) {
  const int team = static_cast<int>(threadIdx.x) / width;
  const int rank = static_cast<int>(threadIdx.x) % width;
  const int teams = static_cast<int>(blockDim.x) / width;
  __syncthreads();
  for (int k = team; k < packs; k += teams) {
    const int column = (rank + k * width) * pack;
    if (column >= op.cols) continue;
    for (int part = 0; part < parts; ++part) {
      float total[pack] = {};
      for (int other = 0; other < teams; ++other) sums.add_to(total, part, k, other * width + rank);
      store<true>(op.partial + (int64_t{blockIdx.x} * parts + part) * op.cols + column, pack,
                  total);
    }
  }
}

/// Rows of x and dy on their way from global to shared memory, and one of what is added to dx. Each
/// thread copies and reads packs of its own, so that no barrier has to order the copies.
template <int packs, class T>
class RowRing {
 public:
  /// Bytes of a block that asks for `ahead` rows before it uses one.
  static size_t bytes(int ahead, bool adds, int threads) {
    return static_cast<size_t>(2 * (ahead + 1) + (adds ? 1 : 0)) * packs * sizeof(Packed<T>) *
           static_cast<size_t>(threads);
  }
  /// Copies to a place at which a row of one operand has room.
  __device__ void ask(int place, int k, const T* from) const {
#pragma unroll
    for (int i = 0; i < lines; ++i)
      __pipeline_memcpy_async(&line(place, k, i), reinterpret_cast<const uint4*>(from) + i,
                              sizeof(uint4));
  }
  __device__ void get(int place, int k, float (&x)[pack]) const {
    Packed<T> held;
#pragma unroll
    for (int i = 0; i < lines; ++i) reinterpret_cast<uint4*>(&held)[i] = line(place, k, i);
    held.between_uses();  // one load of it
    held.get(x);
  }

 private:
  static constexpr int lines = sizeof(Packed<T>) / sizeof(uint4);

  /// Lines of neighbouring threads are next to each other, and in different banks.
  __device__ uint4& line(int place, int k, int i) const {
    return of_block_[((place * packs + k) * lines + i) * static_cast<int>(blockDim.x) +
                     static_cast<int>(threadIdx.x)];
  }

  uint4* of_block_ = dynamic_shared<uint4>();
};

/// A thread's columns: gamma and the sums of dgamma and dbeta, in registers from its first row to
/// its last, and the rows of them.
template <bool centred, int packs, class T>
struct HeldColumns {
  static constexpr int parts = centred ? 2 : 1;
  const NormBackward<T>& op;
  const int cols, width;
  int rank;
  RowRing<packs, T> ring;
  Packed<T> gamma[packs];
  float sums[parts][packs][pack] = {};

  __device__ HeldColumns(const NormBackward<T>& op, int width)
      : op(op),
        cols(static_cast<int>(op.cols)),
        width(width),
        rank(static_cast<int>(threadIdx.x) % width) {
#pragma unroll
    for (int k = 0; k < packs; ++k)
      if (column(k) < cols) gamma[k].read(op.gamma + column(k));
  }
  __device__ int column(int k) const { return (rank + k * width) * pack; }
  __device__ void get_gains(int k, float (&gains)[pack]) {
    gamma[k].between_uses();
    gamma[k].get(gains);
    if constexpr (!centred) {
#pragma unroll
      for (float& gain : gains) gain += op.offset;
    }
  }
  /// Asks for a row of x and dy, which come to this place and the next; for nothing beyond the
  /// last.
  __device__ void ask(int row, int place) const {
    const int64_t at = int64_t{row} * cols + column(0);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (row >= op.rows || column(k) >= cols) continue;
      ring.ask(place, k, op.x + at + k * width * pack);
      ring.ask(place + 1, k, op.dy + at + k * width * pack);
    }
  }
  /// Asks for what is added to a row's dx.
  __device__ void ask_added(int row, int place) const {
    const int64_t at = int64_t{row} * cols + column(0);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (row >= op.rows || column(k) >= cols) continue;
      ring.ask(place, k, op.add + at + k * width * pack);
    }
  }
  /// Adds a row to its own sums and to those of the columns.
  __device__ void take(NormRow<centred, float>& row, int place) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= cols) continue;
      float x[pack], dy[pack], gains[pack];
      ring.get(place, k, x);
      ring.get(place + 1, k, dy);
      get_gains(k, gains);
      row.take(x, dy, gains);
#pragma unroll
      for (int e = 0; e < pack; ++e) {
        sums[0][k][e] += x[e];
        if constexpr (centred) sums[1][k][e] += dy[e];
      }
    }
  }
  __device__ void give(const NormRow<centred, float>& row, int of_row, int place, int added) {
    const int64_t at = int64_t{of_row} * cols + column(0);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (column(k) >= cols) continue;
      float x[pack], dx[pack], gains[pack];
      ring.get(place, k, x);
      ring.get(place + 1, k, dx);
      get_gains(k, gains);
      row.give(x, dx, gains);
      if (op.add != nullptr) {
        ring.get(added, k, x);
#pragma unroll
        for (int e = 0; e < pack; ++e) dx[e] += x[e];
      }
      store<true>(op.dx + at + k * width * pack, pack, dx);
    }
  }
};

/// A block of several teams of `width` threads, each with a row at a time; the next `ahead` (1 or
/// 2) rows are on their way meanwhile. Copies come in groups, in the order in which they were asked
/// for: with every row one of what is added to its dx, and one of a later row's x and dy, be they
/// empty. So 2 · ahead groups are behind a row's own, and one is behind what is added to it.
template <bool centred, int packs, int threads, class T>
__global__ void __launch_bounds__(threads)
    norm_backward_held(const NormBackward<T> op, int width, int ahead) {
  constexpr int parts = centred ? 2 : 1;
  HeldColumns<centred, packs, T> columns(op, width);
  const int team = static_cast<int>(threadIdx.x) / width;
  const int teams = static_cast<int>(blockDim.x) / width;
  const int rows = static_cast<int>(op.rows), stride = static_cast<int>(gridDim.x) * teams;
  const int added = 2 * (ahead + 1);
  const auto behind = [&](int place) { return place == 2 * ahead ? 0 : place + 2; };

  int row = static_cast<int>(blockIdx.x) * teams + team, now = 0, asked = 0;
#pragma unroll 1
  for (int i = 0; i < ahead; ++i, asked += 2) {
    columns.ask(row + i * stride, asked);
    __pipeline_commit();
    __pipeline_commit();
  }
  NormRow<centred, float> of_row, next;
  if (row < rows) next.read(op, row);
  int turn = 0;
  for (; row - team < rows; row += stride, turn ^= 1) {
    // Addresses that depend on the column are computed again for each row, not held in registers.
    asm volatile("" : "+r"(columns.rank));
    const bool has_row = row < rows;  // teams without one take part in barriers
    if (op.add != nullptr) columns.ask_added(row, added);
    __pipeline_commit();
    columns.ask(row + ahead * stride, asked);
    __pipeline_commit();
    of_row = next;
    if (row + stride < rows) next.read(op, row + stride);
    if (ahead == 1)
      __pipeline_wait_prior(2);
    else
      __pipeline_wait_prior(4);
    if (has_row) columns.take(of_row, now);
    sum_teams(of_row.g, of_row.gn, width, turn);
    of_row.g *= op.per_column;
    of_row.gn *= op.per_column;
    if (op.add != nullptr) __pipeline_wait_prior(1);
    if (has_row) columns.give(of_row, row, now, added);
    now = behind(now), asked = behind(asked);
  }

  __pipeline_wait_prior(0);
  __syncthreads();
  const ColumnSums<packs> sums;  // where rows were
#pragma unroll
  for (int k = 0; k < packs; ++k)
    for (int part = 0; part < parts; ++part) sums.set(part, k, columns.sums[part][k]);
  store_sums<parts>(op, sums, width);
}

/// Threads of a block, and so registers of each, and packs of a thread, whose sums and gains these
/// hold. RmsNorm has half as many sums.
template <bool centred, class T>
struct HeldPacks {
  static constexpr int threads = centred ? 512 : 640;
  static constexpr int most = 8 / sizeof(T), less = sizeof(T) == 2 ? 3 : most;

  /// Packs for rows of `all`: fewer, and so more warps, where that leaves no more lanes idle.
  static int of(int64_t all) {
    if (all <= warp) return 1;
    const auto places = [&](int packs) { return team_size(all, packs) * packs; };
    return all <= less * threads && places(less) <= places(most) ? less : most;
  }
  /// Threads of which a multiprocessor's registers have room for one.
  static constexpr int resident(int packs) { return packs == 1 ? 1024 : threads; }
};

/// Shape of a block that holds rows: threads of a team, teams of a block, blocks of a
/// multiprocessor, rows that are on their way, and bytes of shared memory.
struct HeldShape {
  int width = 0, teams = 1, blocks = 1, ahead = 0;
  size_t shared = 0;
};

/// Shape of blocks where a multiprocessor's registers have room for `resident` threads. Two blocks,
/// as far as they go, so that one computes while the other is at a barrier; teams of a warp have
/// none, and fewer blocks leave fewer sums. `ahead` is 0 where shared memory has room for no row.
template <int packs, class T>
HeldShape held_shape(int64_t all, int resident, bool adds, const Launch& on) {
  constexpr size_t reserved = 1024, of_sums = 512;  // of every block: by CUDA, by sum_teams()
  HeldShape shape{.width = team_size(all, packs)};
  const int block = shape.width == warp ? 512 : 256;
  shape.teams = std::max(1, block / shape.width);
  const int threads = shape.teams * shape.width;
  for (shape.blocks = resident / threads; shape.blocks > 0; --shape.blocks) {
    const size_t each = (on.shared_memory + reserved) / static_cast<size_t>(shape.blocks);
    for (shape.ahead = 2; shape.ahead > 0; --shape.ahead) {
      shape.shared = RowRing<packs, T>::bytes(shape.ahead, adds, threads);
      if (shape.shared + reserved + of_sums <= each) return shape;
    }
  }
  return shape;
}

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
