#pragma once
#include <cuda_runtime.h>

namespace frugal::kernels::cuda {

/// True if CUDA's documentation says that a process cannot use the GPU any more after this error.
bool unrecoverable(cudaError_t error);

}  // namespace frugal::kernels::cuda
