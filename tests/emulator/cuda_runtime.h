#pragma once
// What kernels/cuda/ops uses of CUDA, on the processor: it stands before the toolkit's headers on
// the include path. A block's threads are fibers of one thread that take turns at barriers and
// shuffles; between these they run in an order drawn anew each time, so that a result which depends
// on a barrier that is missing changes. Blocks run one after the other, also in a drawn order.
// No GPU, no toolkit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "tests/emulator/cuda_host.h"
#include "tests/emulator/shared.h"

// All that a kernel calls is inlined into it, as the GPU's compiler does: shared memory is found
// there, and products and sums become one operation across functions. On x86 only kernels may use
// the instruction: what else their files define may stand in for the same of other files.
#ifdef __x86_64__
#define __global__ __attribute__((noinline, flatten, target("fma")))
#else
#define __global__ __attribute__((noinline, flatten))
#endif
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Issues to the stream that body runs once for each thread of each block. An error where a GPU
/// would refuse.
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body);
/// Waits for all threads of the block that have not ended.
void barrier();
/// Calls that lanes of a warp make together. Lanes meet that make the same.
enum class Together : uint8_t { shuffle, shuffle_xor, shuffle_up, ballot, barrier };
/// Waits for the lanes that the mask names to do the same. A shuffle's answer is what lane `from`
/// has shown, a ballot's which lanes have shown anything but 0.
uint64_t with_warp(Together what, unsigned mask, uint64_t shown, unsigned from);
unsigned lane();

template <class T>
T shuffle(Together what, unsigned mask, T x, unsigned from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(T));
  bits = with_warp(what, mask, bits, from);
  std::memcpy(&x, &bits, sizeof(T));
  return x;
}

/// x, which the compiler makes no one operation with another.
template <class T>
T apart(T x) {
  asm("" : "+m"(x));
  return x;
}

}  // namespace emulator

extern emulator::Index threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return emulator::launch(*config, reinterpret_cast<const void*>(kernel),
                          [=] { kernel(arguments...); });
}

inline void __syncthreads() { emulator::barrier(); }
inline void __syncwarp(unsigned mask = ~0U) {
  emulator::with_warp(emulator::Together::barrier, mask, 0, emulator::lane());
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int other) {
  return emulator::shuffle(emulator::Together::shuffle_xor, mask, x,
                           (emulator::lane() ^ static_cast<unsigned>(other)) % 32);
}
template <class T>
T __shfl_sync(unsigned mask, T x, int lane) {
  return emulator::shuffle(emulator::Together::shuffle, mask, x, static_cast<unsigned>(lane) % 32);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, int distance) {
  const unsigned lane = emulator::lane(), by = static_cast<unsigned>(distance);
  return emulator::shuffle(emulator::Together::shuffle_up, mask, x, lane >= by ? lane - by : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool predicate) {
  return static_cast<unsigned>(
      emulator::with_warp(emulator::Together::ballot, mask, predicate ? 1 : 0, emulator::lane()));
}

inline float __uint_as_float(uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class T>
void __stwb(T* to, T x) {
  emulator::require_global(to);
  *to = x;
}
inline float __fmul_rn(float x, float y) { return emulator::apart(x * y); }
inline float __fadd_rn(float x, float y) { return emulator::apart(x + y); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }

using std::exp;
using std::exp2;
using std::fma;
using std::fmax;
using std::log;
using std::max;
using std::min;
using std::rint;
using std::sqrt;
using std::tanh;
inline void sincospi(double x, double* s, double* c) {
  *s = std::sin(x * 3.14159265358979323846), *c = std::cos(x * 3.14159265358979323846);
}
inline void sincospif(float x, float* s, float* c) {
  double ds = 0, dc = 0;
  sincospi(x, &ds, &dc);
  *s = static_cast<float>(ds), *c = static_cast<float>(dc);
}
