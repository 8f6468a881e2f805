#pragma once
#include <stdexcept>
#include <string>

namespace frugal::kernels::cuda {

/// A call of CUDA, cuBLAS, cuDNN or NCCL that failed: which one, where, why, and what to do.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "kernels/cuda/device.cpp:17" of a file's path and a line.
std::string place(const char* file, int line);

}  // namespace frugal::kernels::cuda
