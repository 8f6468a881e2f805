#include "kernels/cpu/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

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

}  // namespace frugal::kernels
