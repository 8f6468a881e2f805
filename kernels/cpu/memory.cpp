#include "kernels/cpu/memory.h"

#include <fmt/format.h>

#include <new>

#include "kernels/support/bytes.h"
#include "kernels/support/error.h"

namespace frugal::kernels {

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
