#pragma once
#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/ops/norm_sums.cuh"

/// Backward passes of norms whose columns' gains and sums stay in registers.
namespace frugal::kernels::cuda {

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

/// How a block holds rows: threads of a team, teams of a block, blocks of a multiprocessor, rows
/// that are on their way, and bytes of shared memory.
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
