#pragma once
#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/ops/rows.cuh"
#include "kernels/cuda/ops/shared.cuh"

/// Backward passes of norms whose columns' gains and sums stay in registers.
///
/// With normal = (x − mean) · rstd and g = dy · gain, a row's
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

}  // namespace frugal::kernels::cuda
