#pragma once
#include "kernels/cuda/ops/launch.h"

/// FRUGAL_SHARED(float, of_warp, [2][32]) declares shared memory of the block, whose size the
/// emulator knows before the kernel runs, as CUDA does.
#ifdef __CUDACC__
#define FRUGAL_SHARED(type, name, extents) __shared__ type name extents
#else
#define FRUGAL_SHARED(type, name, extents) EMULATED_SHARED(type, name, extents)
#endif

namespace frugal::kernels::cuda {

/// The shared memory that launch_with_shared() gave the block, aligned to 16 bytes.
template <class T>
__device__ inline T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ uint4 memory[];
#else
  void* const memory = emulator::dynamic_shared();
#endif
  return reinterpret_cast<T*>(memory);
}

}  // namespace frugal::kernels::cuda
