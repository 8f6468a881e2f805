#pragma once
#include <cuda_runtime.h>

#include <source_location>
#include <stdexcept>
#include <string>

#include "kernels/cuda/name.h"

namespace frugal::FRUGAL_CUDA {

/// A call of CUDA, cuBLAS, cuDNN or NCCL that failed: which one, where, why, and what to do.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The file of a call relative to the root, and its line.
std::string place(const std::source_location& where);

[[noreturn]] void fail(cudaError_t error, const char* call, const std::source_location& where);

/// Throws CudaError unless the call succeeded; `call` is its name: "cudaMemcpyAsync".
inline void check(cudaError_t error, const char* call,
                  const std::source_location& where = std::source_location::current()) {
  if (error != cudaSuccess) fail(error, call, where);
}

}  // namespace frugal::FRUGAL_CUDA
