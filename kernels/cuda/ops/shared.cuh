#pragma once
#include "kernels/cuda/launch.h"

namespace frugal::cuda {

/// The shared memory that launch_with_shared() gave the block, aligned to 16 bytes.
template <class T>
__device__ inline T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ uint4 memory[];
#else  // the emulator's `__shared__` has no size of its own
  void* const memory = emulator::dynamic_shared();
#endif
  return reinterpret_cast<T*>(memory);
}

}  // namespace frugal::cuda
