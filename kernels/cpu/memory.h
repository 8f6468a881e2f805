#pragma once
#include <cstdint>
#include <memory>

#include "kernels/cpu/arena.h"
#include "kernels/cpu/memory_budget.h"

namespace frugal::kernels {

/// 64-byte aligned memory within a budget. What is given back is kept for the next request, because
/// the operating system's page faults would cost more than the kernels; it counts in the budget
/// until it is released to make room.
class CachingAllocator {
 public:
  explicit CachingAllocator(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator() { budget_->give_back(arena_.backed_hole_bytes()); }

  /// Throws OutOfMemory when the bytes requested and not given back would exceed the budget, or
  /// when the operating system has no more; all that was requested is missing then.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;
  /// Bytes taken from the operating system and not given back to it.
  int64_t reserved() const { return arena_.backed_bytes(); }

 private:
  void release();

  std::shared_ptr<MemoryBudget> budget_;
  Arena arena_;
};

}  // namespace frugal::kernels
