#include <cuda_pipeline_primitives.h>

#include "kernels/cuda/ops/block.cuh"
#include "kernels/cuda/ops/pack.cuh"
#include "tests/emulated/faulty.h"

namespace frugal::kernels::faulty {
namespace {

using cuda::dynamic_shared;

using cuda::launch_with_shared;

constexpr int warp = 32, threads = 2 * warp;
constexpr unsigned every_lane = 0xffffffffU;

template <int>
__global__ void declare(int at, float* to) {
  FRUGAL_SHARED(float, declared, [128]);
  declared[threadIdx.x] = 1;
  __syncthreads();
  if (at >= 0) to[threadIdx.x] = declared[at] + dynamic_shared<float>()[at];
}

template <class T>
__device__ T through(T x, int at) {
  FRUGAL_SHARED(T, declared, [64]);
  declared[threadIdx.x] = x;
  __syncthreads();
  return declared[at];
}

template <class T>
__device__ T once_more(T x, int at) {
  FRUGAL_SHARED(T, other, [16]);
  other[threadIdx.x % 16] = x;
  __syncthreads();
  return other[0] + through(x, at) + through(T{1}, at);
}

__global__ void declare_nested(int at, float* to) {
  to[threadIdx.x] =
      once_more(to[threadIdx.x], at) + through(1.0F, at) + static_cast<float>(through(1, at));
}

using Kernel = void (*)(int, float*);
Kernel kernel_of(Declaring kernel) {
  constexpr Kernel all[] = {declare<0>, declare<1>, declare<2>, declare_nested};
  return all[static_cast<size_t>(kernel)];
}

__global__ void sum_unwritten(float* sums) {
  FRUGAL_SHARED(float, left, [warp]);
  const float sum = cuda::reduce_warp(left[threadIdx.x], cuda::Plus{});
  left[threadIdx.x] = 1;
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ int exchange_of(Lanes lanes, int lane) {
  constexpr unsigned low = 0xffffU;
  const bool upper = lane >= warp / 2;
  switch (lanes) {
    case Lanes::halves:
      return upper ? __shfl_xor_sync(~low, lane, 1) : __shfl_xor_sync(low, lane, 3);
    case Lanes::caller_unnamed:
      return __shfl_xor_sync(low, lane, 1);
    case Lanes::source_unnamed:
      return upper ? lane : __shfl_sync(low, lane, lane + 8);
    case Lanes::some_elsewhere:
      return upper ? __shfl_xor_sync(every_lane, lane, 1) : __shfl_sync(every_lane, lane, lane);
    case Lanes::some_ended:
      return upper ? -1 : __shfl_xor_sync(every_lane, lane, 1);
    case Lanes::some_at_barrier:
      if (upper) __syncthreads();
      return upper ? lane : __shfl_xor_sync(every_lane, lane, 1);
    default:
      return __shfl_xor_sync(every_lane, lane, 1);
  }
}

__global__ void exchange_lanes(Lanes lanes, int* sums) {
  const int lane = static_cast<int>(threadIdx.x);
  sums[lane] = exchange_of(lanes, lane);
}

__global__ void vote_odd(unsigned mask, unsigned* votes) {
  const unsigned lane = threadIdx.x;
  votes[lane] = 0;
  if (lane >= warp - 4) return;
  votes[lane] = __ballot_sync(mask, lane % 2 == 1);
}

__device__ void order(Order by, Order without) {
  if (by == without) return;
  if (by == Order::by_warp)
    __syncwarp();
  else if (by == Order::by_shuffle)
    __shfl_xor_sync(every_lane, 0, 1);
  else
    __syncthreads();
}

__global__ void pass_twice(Order by, const float* from, float* to) {
  FRUGAL_SHARED(float, held, [threads]);
  float mine = from[threadIdx.x];
  for (int round = 0; round < 2; ++round) {
    held[threadIdx.x] = mine;
    order(by, Order::none_after_write);
    mine = held[(threadIdx.x + 1) % blockDim.x];
    order(by, Order::none_after_read);
  }
  to[threadIdx.x] = mine;
}

__global__ void multiply_and_add(bool apart, const float* a, const float* b, const float* c,
                                 float* to) {
  const unsigned i = threadIdx.x;
  to[i] = apart ? __fadd_rn(__fmul_rn(a[i], b[i]), c[i]) : a[i] * b[i] + c[i];
}

/// Two groups of a copy each.
__global__ void add_copied(Wait wait, const float* from, float* to) {
  FRUGAL_SHARED(float, held, [2][warp]);
  for (int i = 0; i < 2; ++i) {
    __pipeline_memcpy_async(&held[i][threadIdx.x], from + i * warp + threadIdx.x, sizeof(float));
    __pipeline_commit();
  }
  if (wait == Wait::for_none) return;
  __pipeline_wait_prior(wait == Wait::for_one ? 1 : 0);
  to[threadIdx.x] = held[0][threadIdx.x] + held[1][threadIdx.x];
  __pipeline_wait_prior(0);
}

/// A store of global memory alone, as put() makes.
__global__ void put_lines(bool to_shared, uint4* to) {
  auto* const shared = dynamic_shared<uint4>();
  cuda::put_line((to_shared ? shared : to) + threadIdx.x, uint4{1, 2, 3, 4});
}

}  // namespace

const void* address_of(Declaring kernel) {
  return reinterpret_cast<const void*>(kernel_of(kernel));
}
cudaError_t ask(Declaring kernel, size_t dynamic_bytes) {
  return cudaFuncSetAttribute(address_of(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(dynamic_bytes));
}
cudaError_t launch_unasked(Declaring kernel, size_t dynamic_bytes) {
  cudaLaunchConfig_t config;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = dynamic_bytes;
  return cudaLaunchKernelEx(&config, kernel_of(kernel), -1, nullptr);
}
void launch(const cuda::Launch& on, Declaring kernel, size_t dynamic_bytes) {
  launch_with_shared(on, kernel_of(kernel), 1, threads, dynamic_bytes, -1, nullptr);
}
void read_before_writing(const cuda::Launch& on, int64_t blocks, float* sums) {
  cuda::launch(on, sum_unwritten, blocks, warp, sums);
}
void exchange(const cuda::Launch& on, Lanes lanes, int* sums) {
  cuda::launch(on, exchange_lanes, 1, warp, lanes, sums);
}
void vote(const cuda::Launch& on, bool named, unsigned* votes) {
  cuda::launch(on, vote_odd, 1, warp, named ? every_lane : every_lane >> 4, votes);
}
void pass_on(const cuda::Launch& on, Order order, const float* from, float* to) {
  const bool in_warp = order == Order::by_warp || order == Order::by_shuffle;
  cuda::launch(on, pass_twice, 1, in_warp ? warp : threads, order, from, to);
}
void put(const cuda::Launch& on, bool to_shared, uint4* to) {
  launch_with_shared(on, put_lines, 1, warp, warp * sizeof(uint4), to_shared, to);
}
void sum_copies(const cuda::Launch& on, Wait wait, const float* from, float* to) {
  cuda::launch(on, add_copied, 1, warp, wait, from, to);
}
void multiply_add(const cuda::Launch& on, bool apart, const float* a, const float* b,
                  const float* c, float* to) {
  cuda::launch(on, multiply_and_add, 1, warp, apart, a, b, c, to);
}

}  // namespace frugal::kernels::faulty
