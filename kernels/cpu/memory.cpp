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
  if (address != nullptr) reserved_ += size;
  return address;
}

/// A block of this class that was given back, or null.
void* CachingAllocator::reuse(int64_t size, int64_t bytes) {
  auto& blocks = free_[size];
  if (blocks.empty()) return nullptr;
  void* const address = blocks.back();
  blocks.pop_back();
  budget_->give_back(size - bytes);
  return address;
}

void* CachingAllocator::allocate(int64_t bytes) {
  const auto fail = [&](const char* reason, int64_t capacity) {
    const int64_t taken = budget_->taken();
    throw OutOfMemory(fmt::format("cpu: {} ({} bytes requested, {} in use)", reason, bytes, taken),
                      bytes, taken, capacity);
  };
  // Also keeps the rounding of huge requests within range.
  if (bytes > budget_->capacity()) {
    release_free_blocks();
    fail("out of memory", budget_->capacity());
  }
  const int64_t size = size_class(bytes);
  if (void* const address = reuse(size, bytes)) return address;
  if (!budget_->take(bytes)) {
    release_free_blocks();
    if (!budget_->take(bytes)) fail("out of memory", budget_->capacity());
  }
  void* address = obtain(size);
  if (address == nullptr) {
    release_free_blocks();
    address = obtain(size);
  }
  if (address == nullptr) {
    budget_->give_back(bytes);
    fail("the operating system has no more memory", budget_->taken());
  }
  return address;
}

void CachingAllocator::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  const int64_t size = size_class(bytes);
  bool kept = budget_->take(size - bytes);
  try {
    if (kept) free_[size].push_back(address);
  } catch (...) {  // no memory for the list itself
    budget_->give_back(size - bytes);
    kept = false;
  }
  if (kept) return;
  std::free(address);
  reserved_ -= size;
  budget_->give_back(bytes);
}

void CachingAllocator::release_free_blocks() noexcept {
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) std::free(block);
    const int64_t bytes = size * static_cast<int64_t>(blocks.size());
    reserved_ -= bytes;
    budget_->give_back(bytes);
    blocks.clear();
  }
}

}  // namespace frugal
