#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace frugal::kernels::cuda {

/// A call of CUDA, cuBLAS, cuDNN or NCCL that failed: which one, where, why, and what to do.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "kernels/cuda/device.cpp:17" of a file's path and a line.
std::string place(const char* file, int line);

[[noreturn]] void fail(cudaError_t error, const char* call, const char* file, int line);

/// Throws CudaError unless the call succeeded; `call` is its name: "cudaMemcpyAsync". Where it was
/// made is found by itself.
inline void check(cudaError_t error, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error != cudaSuccess) fail(error, call, file, line);
}

}  // namespace frugal::kernels::cuda
