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

}  // namespace frugal::kernels::cuda
