#include "kernels/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>

#include "kernels/support/error.h"

namespace frugal {
namespace {

constexpr int64_t line = 64, huge_page = int64_t{2} << 20;

#ifdef __has_feature
#define FRUGAL_HAS_FEATURE(feature) __has_feature(feature)
#else
#define FRUGAL_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || FRUGAL_HAS_FEATURE(address_sanitizer)
constexpr bool maps_large = false;
#else
constexpr bool maps_large = true;
#endif

/// Rounded up to one of eight sizes for each power of two: at most an eighth is lost.
int64_t size_class(int64_t bytes) {
  const auto size = static_cast<uint64_t>(bytes < line ? line : bytes);
  const auto step = std::max(static_cast<uint64_t>(line), std::bit_floor(size) / 8);
  return static_cast<int64_t>((size + step - 1) / step * step);
}

/// Memory that is the system's again as soon as it is unmapped: what malloc is given back may stay
/// this process's. In huge pages but for what is left of the last one. Null where there is no more.
void* map(size_t size) {
  const size_t room = size + static_cast<size_t>(huge_page);
  void* const raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(raw);
  const size_t before = -address % static_cast<uintptr_t>(huge_page);
  auto* const begin = static_cast<std::byte*>(raw) + before;
  if (before > 0) munmap(raw, before);
  munmap(begin + size, room - size - before);
  madvise(begin, size, MADV_HUGEPAGE);
  return begin;
}

bool is_mapped(int64_t size) { return maps_large && size >= huge_page; }

/// Whole pages of the system's, which may be of 64 KiB: no others can be unmapped.
size_t mapped(int64_t size) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  return static_cast<size_t>((size + page - 1) / page * page);
}

void* take_from_system(int64_t size) {
  return is_mapped(size) ? map(mapped(size)) : std::aligned_alloc(line, static_cast<size_t>(size));
}

void give_to_system(void* address, int64_t size) noexcept {
  if (is_mapped(size))
    munmap(address, mapped(size));
  else
    std::free(address);
}

}  // namespace

bool CachingAllocator::maps_large_blocks() { return maps_large; }

void* CachingAllocator::obtain(int64_t size) {
  void* const address = take_from_system(size);
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
  give_to_system(address, size);
  reserved_ -= size;
  budget_->give_back(bytes);
}

void CachingAllocator::release_free_blocks() noexcept {
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) give_to_system(block, size);
    const int64_t bytes = size * static_cast<int64_t>(blocks.size());
    reserved_ -= bytes;
    budget_->give_back(bytes);
    blocks.clear();
  }
}

}  // namespace frugal
