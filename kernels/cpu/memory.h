#pragma once
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

namespace frugal {

/// 64-byte aligned memory with a limit. Blocks that are given back are kept for the next request of
/// about their size, because the operating system's page faults would cost more than the kernels.
class CachingAllocator {
 public:
  static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

  explicit CachingAllocator(int64_t capacity) : capacity_(capacity) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator() { release_free_blocks(); }

  /// Throws OutOfMemory when the bytes requested and not given back would exceed the capacity, or
  /// when the operating system has no more.
  void* allocate(int64_t bytes);
  void deallocate(void* address, int64_t bytes) noexcept;

 private:
  void* obtain(int64_t size);
  void release_free_blocks() noexcept;

  int64_t capacity_, in_use_ = 0;
  std::unordered_map<int64_t, std::vector<void*>> free_;  // by size class
};

}  // namespace frugal
