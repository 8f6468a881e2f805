#include <algorithm>

#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/shared.cuh"
#include "kernels/cuda/ops/strides.cuh"

// A block has consecutive rows of one matrix. It computes their factors once, in shared memory,
// where the logarithmic sums are read and replaced by one thread each.
namespace frugal::kernels::cuda {
namespace {

constexpr int merge_threads = 256;
constexpr int rows_of_block = 64;

template <class T>
struct Merge {
  using A = Accumulator<T>;
  A *y, *log_sum_exp;
  const T* part;
  const A* part_log_sum_exp;
  int64_t rows, sums_matrix, y_matrix, y_row, part_matrix, part_row;  ///< and strides
  unsigned cols, packs, chunks;  ///< packs of a row, blocks of a matrix

  Merge(const MergeAttention& op)
      : y(op.y.as<A>()),
        log_sum_exp(op.log_sum_exp.as<A>()),
        part(op.part.as<T>()),
        part_log_sum_exp(op.part_log_sum_exp.as<A>()),
        rows(op.y.shape[1]),
        sums_matrix(op.log_sum_exp.stride[0]),
        y_matrix(op.y.stride[0]),
        y_row(op.y.stride[1]),
        part_matrix(op.part.stride[0]),
        part_row(op.part.stride[1]),
        cols(static_cast<unsigned>(op.y.cols())),
        packs((cols + pack - 1) / pack),
        chunks(static_cast<unsigned>((rows + rows_of_block - 1) / rows_of_block)) {}
};

template <bool wide, class T>
__global__ void __launch_bounds__(merge_threads) merge(const Merge<T> op) {
  using A = Accumulator<T>;
  FRUGAL_SHARED(A, own, [rows_of_block]);
  FRUGAL_SHARED(A, added, [rows_of_block]);
  const int64_t matrix = blockIdx.x / op.chunks;
  const int64_t first = int64_t{blockIdx.x % op.chunks} * rows_of_block;
  const auto here =
      static_cast<unsigned>(op.rows - first < rows_of_block ? op.rows - first : rows_of_block);
  if (threadIdx.x < here) {
    A& before = op.log_sum_exp[matrix * op.sums_matrix + first + threadIdx.x];
    const A other = op.part_log_sum_exp[matrix * op.rows + first + threadIdx.x];
    const A largest = before > other ? before : other;
    const A own_sum = exp(before - largest), part_sum = exp(other - largest);
    own[threadIdx.x] = own_sum / (own_sum + part_sum);
    added[threadIdx.x] = part_sum / (own_sum + part_sum);
    before = largest + log(own_sum + part_sum);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < here * op.packs; i += merge_threads) {
    const unsigned row = i / op.packs, col = i % op.packs * pack;
    const int64_t count = op.cols - col < pack ? op.cols - col : pack;
    A* const y = op.y + matrix * op.y_matrix + (first + row) * op.y_row + col;
    const Packed<A> before = fetch<wide>(y, count);
    const Packed<T> other =
        fetch<wide>(op.part + matrix * op.part_matrix + (first + row) * op.part_row + col, count);
    A sum[pack], x[pack];
    before.get(sum);
    other.get(x);
#pragma unroll
    for (int e = 0; e < pack; ++e) sum[e] = sum[e] * own[row] + x[e] * added[row];
    store<wide>(y, count, sum);
  }
}

}  // namespace

template <>
void run(const MergeAttention& op, const Launch& on) {
  if (op.y.size() == 0) return;
  const bool wide = all_wide(op.y.cols(), op.y, op.part) && rows_wide(op.y) && rows_wide(op.part);
  dispatch(op.part.type, wide, [&]<class T, class Wide>(T, Wide) {
    const Merge<T> all(op);
    launch(on, merge<Wide::value, T>, op.y.shape[0] * all.chunks, merge_threads, all);
  });
}

}  // namespace frugal::kernels::cuda
