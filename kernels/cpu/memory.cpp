#include "kernels/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <new>

#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__  // as GCC says it
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
constexpr int64_t guard = 64;  // bytes behind a block that are nobody's
#else
#define ASAN_POISON_MEMORY_REGION(address, size)
#define ASAN_UNPOISON_MEMORY_REGION(address, size)
constexpr int64_t guard = 0;
#endif

namespace frugal::kernels {

namespace {

/// The first range that ends after this address.
auto first_after(auto& ends, uintptr_t address) {
  const auto next = ends.upper_bound(address);
  return next != ends.begin() && std::prev(next)->second > address ? std::prev(next) : next;
}

}  // namespace

void AddressRanges::insert(AddressRange range) {
  const auto after = ends_.lower_bound(range.begin);
  const bool meets_after = after != ends_.end() && after->first == range.end;
  const uintptr_t end = meets_after ? after->second : range.end;
  if (after != ends_.begin() && std::prev(after)->second == range.begin)
    std::prev(after)->second = end;
  else
    ends_.emplace_hint(after, range.begin, end);
  if (meets_after) ends_.erase(after);
}

void AddressRanges::erase(AddressRange range) {
  for (auto i = first_after(ends_, range.begin); i != ends_.end() && i->first < range.end;) {
    const AddressRange old{i->first, i->second};
    if (old.end > range.end) ends_.emplace_hint(std::next(i), range.end, old.end);
    if (old.begin < range.begin)
      (i++)->second = range.begin;
    else
      i = ends_.erase(i);
  }
}

int64_t AddressRanges::common(AddressRange range) const {
  int64_t count = 0;
  for (auto i = first_after(ends_, range.begin); i != ends_.end() && i->first < range.end; ++i)
    count += AddressRange{std::max(i->first, range.begin), std::min(i->second, range.end)}.size();
  return count;
}

std::optional<AddressRange> AddressRanges::smallest(int64_t size) const {
  std::optional<AddressRange> best;
  for_each([&](AddressRange range) {
    if (range.size() >= size && (!best || range.size() < best->size())) best = range;
  });
  return best;
}

namespace {

constexpr int64_t line = 64, huge_page = int64_t{2} << 20;

int64_t up(int64_t bytes, int64_t step) { return (bytes + step - 1) / step * step; }

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

/// Nothing of it is backed. Empty where the system refuses.
AddressRange map(int64_t size) {
  void* const begin = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return {};
  const auto address = reinterpret_cast<uintptr_t>(begin);
  return {address, address + static_cast<uintptr_t>(size)};
}

/// Whole pages only: none that a neighbour shares.
void unback(AddressRange hole) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (hole.begin + page - 1) / page * page, end = hole.end / page * page;
  if (begin < end) madvise(pointer(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

// In one stretch all blocks are neighbours. Addresses cost nothing, but sanitizers note each.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const int64_t Arena::stretch = int64_t{256} << 20;
#else
const int64_t Arena::stretch = int64_t{64} << 30;
#endif

int64_t Arena::room_for(int64_t bytes) { return up(std::max<int64_t>(bytes, 1), line) + guard; }

Arena::~Arena() {
  for (const AddressRange& all : mapped_) {
    ASAN_UNPOISON_MEMORY_REGION(pointer(all.begin), all.size());
    munmap(pointer(all.begin), static_cast<size_t>(all.size()));
  }
}

/// Asks for much, and where addresses are limited for no more than it needs.
bool Arena::extend(int64_t size) {
  AddressRange all = size < stretch ? map(stretch) : AddressRange{};
  if (all.size() == 0) all = map(up(size, huge_page) + huge_page);
  if (all.size() == 0) return false;
  mapped_.push_back(all);
  madvise(pointer(all.begin), static_cast<size_t>(all.size()), MADV_HUGEPAGE);
  const auto begin = static_cast<uintptr_t>(up(static_cast<int64_t>(all.begin), huge_page));
  holes_.insert({begin, all.end});
  unbacked_.insert({begin, all.end});
  return true;
}

Arena::Place Arena::find(int64_t bytes) {
  const int64_t size = room_for(bytes);
  auto hole = holes_.smallest(size);
  if (!hole && extend(size)) hole = holes_.smallest(size);
  if (!hole) return {};
  const AddressRange range{hole->begin, hole->begin + static_cast<uintptr_t>(size)};
  return {range, unbacked_.common(range)};
}

void* Arena::take(const Place& place, int64_t bytes) {
  holes_.erase(place.range);
  unbacked_.erase(place.range);
  taken_ += place.range.size();
  backed_ += place.unbacked;
  ASAN_POISON_MEMORY_REGION(pointer(place.range.begin), place.range.size());
  ASAN_UNPOISON_MEMORY_REGION(pointer(place.range.begin), bytes);
  static_cast<void>(bytes);
  return pointer(place.range.begin);
}

void Arena::give_back(void* address, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const AddressRange range{begin, begin + static_cast<uintptr_t>(room_for(bytes))};
  ASAN_POISON_MEMORY_REGION(address, range.size());
  holes_.insert(range);
  taken_ -= range.size();
}

void Arena::release() {
  holes_.for_each([&](AddressRange hole) {
    if (unbacked_.common(hole) < hole.size()) unback(hole);
  });
  unbacked_ = holes_;
  backed_ = taken_;
}

// In the budget is what was requested and not given back, and all that is kept.

void* CachingAllocator::allocate(int64_t bytes) {
  const auto fail = [&](const char* reason, int64_t capacity) {
    const int64_t taken = budget_->taken();
    throw OutOfMemory(fmt::format("cpu: {} ({} requested, {} in use)", reason,
                                  bytes_in_words(bytes), bytes_in_words(taken)),
                      bytes, taken, capacity);
  };
  // Also keeps the rounding of huge requests within range.
  if (bytes > budget_->capacity()) {
    release();
    fail("out of memory", budget_->capacity());
  }
  Arena::Place place = arena_.find(bytes);
  if (place.range.size() == 0) fail("the operating system has no more memory", budget_->taken());
  const int64_t kept = place.range.size() - place.unbacked;
  if (!budget_->take(bytes - kept)) {
    release();
    place = arena_.find(bytes);
    if (!budget_->take(bytes)) fail("out of memory", budget_->capacity());
  }
  return arena_.take(place, bytes);
}

void CachingAllocator::deallocate(void* address, int64_t bytes) noexcept {
  if (address == nullptr) return;
  try {
    if (budget_->take(Arena::room_for(bytes) - bytes)) return arena_.give_back(address, bytes);
    release();
    arena_.give_back(address, bytes);
    arena_.release();
    budget_->give_back(bytes);
  } catch (const std::bad_alloc&) {
    // No memory to note that it is free: it stays taken.
  }
}

void CachingAllocator::release() {
  budget_->give_back(arena_.backed_hole_bytes());
  arena_.release();
}

}  // namespace frugal::kernels
