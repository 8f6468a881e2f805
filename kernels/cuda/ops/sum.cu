#include "kernels/cuda/ops/block.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/kernels.h"

namespace frugal::kernels::cuda {
namespace {

constexpr int final_threads = 1024;

/// One partial sum per block. Packs are added up in accumulation type, what follows in double: the
/// sum of very many keeps its digits, and one addition in eight is a slow one.
template <bool wide, class T>
__global__ void __launch_bounds__(elementwise_threads)
    sum_packs(const T* x, int64_t size, bool squared, double* partial) {
  using A = Accumulator<T>;
  constexpr int at_once = sizeof(T) == 2 ? 4 : 2;  // 64 bytes of a thread on their way
  double total = 0;
  each_pack<at_once>(
      size, [=](int64_t i, int64_t count) { return fetch<wide>(x + i, count); },
      [&](int64_t, int64_t, const Packed<T>& held) {
        A v[pack];
        held.get(v);
#pragma unroll
        for (int e = 0; e < pack; ++e) v[e] = squared ? v[e] * v[e] : v[e];
#pragma unroll
        for (int half = pack / 2; half > 0; half /= 2) {
#pragma unroll
          for (int e = 0; e < half; ++e) v[e] += v[e + half];
        }
        total += static_cast<double>(v[0]);
      });
  total = sum_block(total);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ __launch_bounds__(final_threads) void add_partial_sums(const double* partial,
                                                                  int64_t count, double* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += final_threads) sum += partial[i];
  sum = sum_block(sum);
  if (threadIdx.x == 0) *total += sum;
}

}  // namespace

template <>
void run(const Sum& op, const Launch& on) {
  const int64_t size = op.x.size();
  constexpr int64_t per_block = int64_t{elementwise_threads} * pack;
  const int64_t blocks = blocks_for(on, (size + per_block - 1) / per_block, 8);
  auto* const partial = on.scratch->take<double>(static_cast<size_t>(blocks));
  dispatch(op.x.type, all_wide(size, op.x), [&]<class T, class Wide>(T, Wide) {
    launch(on, sum_packs<Wide::value, T>, blocks, elementwise_threads, op.x.as<T>(), size,
           op.squared, partial);
  });
  launch(on, add_partial_sums, 1, final_threads, partial, blocks, op.total.as<double>());
}

}  // namespace frugal::kernels::cuda
