#include "kernels/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/support/error.h"

namespace frugal {
namespace {

constexpr int64_t line = 64, huge_page = int64_t{2} << 20;

/// Rounded up to one of eight sizes for each power of two: at most an eighth is lost.
int64_t size_class(int64_t bytes) {
  const auto size = static_cast<uint64_t>(bytes < line ? line : bytes);
  const auto step = std::max(static_cast<uint64_t>(line), std::bit_floor(size) / 8);
  return static_cast<int64_t>((size + step - 1) / step * step);
}

}  // namespace

void* CachingAllocator::obtain(int64_t size) {
  const bool huge = size >= huge_page;
  const auto alignment = static_cast<size_t>(huge ? huge_page : line);
  const size_t whole = (static_cast<size_t>(size) + alignment - 1) / alignment * alignment;
  void* const address = std::aligned_alloc(alignment, whole);
  if (address != nullptr && huge) madvise(address, whole, MADV_HUGEPAGE);
  return address;
}

void* CachingAllocator::allocate(int64_t bytes) {
  const auto fail = [&](const char* reason) {
    throw OutOfMemory(
        fmt::format("cpu: {} ({} bytes requested, {} in use)", reason, bytes, in_use_), bytes,
        in_use_, capacity_);
  };
  if (bytes > capacity_ - in_use_) fail("out of memory");
  const int64_t size = size_class(bytes);
  auto& blocks = free_[size];
  void* address = nullptr;
  if (!blocks.empty()) {
    address = blocks.back();
    blocks.pop_back();
  } else {
    blocks.reserve(blocks.capacity() + 1);
    address = obtain(size);
    if (address == nullptr) {
      release_free_blocks();
      address = obtain(size);
    }
    if (address == nullptr) fail("the operating system has no more memory");
  }
  in_use_ += bytes;
  return address;
}

void CachingAllocator::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  in_use_ -= bytes;
  try {
    free_[size_class(bytes)].push_back(address);
  } catch (...) {  // no memory for the list itself
    std::free(address);
  }
}

void CachingAllocator::release_free_blocks() noexcept {
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) std::free(block);
    blocks.clear();
  }
}

}  // namespace frugal
