#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/memory_budget.h"
#include "kernels/cuda/paged_memory.h"

namespace frugal::kernels::cuda {

/// A GPU's memory, or memory of the host that it reaches by itself, which is page-locked; 256-byte
/// aligned. A GPU's is PagedMemory. Blocks of the host's, and of a GPU's without virtual memory,
/// are kept for the next request of their size, because cudaMalloc and cudaFree wait for the whole
/// GPU, and locking pages takes longer than a transfer. The current device is used.
class CudaMemory {
 public:
  enum class Place : uint8_t { gpu, host };

  explicit CudaMemory(Place place) : place_(place) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() { release_free_blocks(); }

  /// Throws OutOfMemory, after what is kept was released; the message has both what was requested
  /// and what is in use. On the host it counts with all that this process may take from the
  /// machine: pages that are locked cannot be swapped.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  /// Bytes taken from the GPU or the host and not given back.
  int64_t reserved() const { return reserved_ + (paged_ ? paged_->reserved() : 0); }
  void release_free_blocks() noexcept;

 private:
  void* take(int64_t bytes);
  void* obtain(int64_t size);
  void give_back(void* address, int64_t size) noexcept;
  [[noreturn]] void refuse(int64_t bytes) const;

  Place place_;
  std::shared_ptr<MemoryBudget> budget_ = place_ == Place::host ? machine_memory() : nullptr;
  bool begun_ = false;
  std::unique_ptr<PagedMemory> paged_;
  std::unordered_map<int64_t, std::vector<void*>> free_;  // by size
  int64_t in_use_ = 0, reserved_ = 0;
};

}  // namespace frugal::kernels::cuda
