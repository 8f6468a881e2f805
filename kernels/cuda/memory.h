#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/name.h"

namespace frugal::FRUGAL_CUDA {

/// A GPU's memory, 256-byte aligned. Blocks that are given back are kept for the next request of
/// their size, because cudaMalloc and cudaFree wait for the whole GPU. The current device is used.
class CudaMemory {
 public:
  CudaMemory() = default;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() { release_free_blocks(); }

  /// Throws OutOfMemory, after what is kept was released; the message has both what was requested
  /// and what is in use.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  /// Bytes taken from the GPU and not given back to it.
  int64_t reserved() const { return reserved_; }
  void release_free_blocks() noexcept;

 private:
  void* obtain(int64_t size);

  std::unordered_map<int64_t, std::vector<void*>> free_;  // by size
  int64_t in_use_ = 0, reserved_ = 0;
};

}  // namespace frugal::FRUGAL_CUDA
