#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/memory_budget.h"

namespace frugal {

/// 64-byte aligned memory within a budget. Blocks that are given back are kept for the next request
/// of about their size, because the operating system's page faults would cost more than the
/// kernels; they count in the budget until they are released to make room.
class CachingAllocator {
 public:
  explicit CachingAllocator(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator() { release_free_blocks(); }

  /// Throws OutOfMemory when the bytes requested and not given back would exceed the budget, or
  /// when the operating system has no more; all that was requested is missing then.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  /// Bytes taken from the operating system and not given back to it.
  int64_t reserved() const { return reserved_; }
  /// Whether large blocks are the system's again as soon as they are released. Under the address
  /// sanitizer they are malloc's, because it sees overflows of those only.
  static bool maps_large_blocks();

 private:
  void* reuse(int64_t size, int64_t bytes);
  void* obtain(int64_t size);
  void release_free_blocks() noexcept;

  std::shared_ptr<MemoryBudget> budget_;
  int64_t reserved_ = 0;
  std::unordered_map<int64_t, std::vector<void*>> free_;  // by size class
};

}  // namespace frugal
