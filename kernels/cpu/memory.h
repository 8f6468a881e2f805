#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/memory_budget.h"

namespace frugal::kernels {

/// Addresses from `begin` to before `end`.
struct AddressRange {
  uintptr_t begin = 0, end = 0;
  int64_t size() const { return static_cast<int64_t>(end - begin); }
};

/// Ranges that do not overlap; those that meet are one.
class AddressRanges {
 public:
  /// None of the addresses are in it yet.
  void insert(AddressRange range);
  void erase(AddressRange range);
  /// Number of these addresses that it contains.
  int64_t common(AddressRange range) const;
  /// The smallest range of at least so many addresses; of several, the lowest.
  std::optional<AddressRange> smallest(int64_t size) const;

  template <typename Function>
  void for_each(Function&& function) const {
    for (const auto& [begin, end] : ends_) function(AddressRange{begin, end});
  }

 private:
  using Ends = std::map<uintptr_t, uintptr_t>;  // by begin
  Ends ends_;
};

/// Addresses that the system backs with memory once they are written to. What is taken is cut from
/// the smallest hole that has room, so blocks of all sizes use the same memory after each other;
/// what is given back stays backed until it is released. 64-byte aligned, in huge pages where the
/// system has them. Under the address sanitizer, what lies behind a block and what was given back
/// must not be touched.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  static const int64_t stretch;  ///< addresses that are asked for at a time, or more

  struct Place {
    AddressRange range;
    int64_t unbacked = 0;  ///< bytes of it that the system has yet to give
  };
  /// Place that take() would take next for so many bytes; empty if the system has no more
  /// addresses.
  Place find(int64_t bytes);
  void* take(const Place& place, int64_t bytes);
  /// Gives back a block of so many bytes.
  void give_back(void* address, int64_t bytes);
  /// The memory of all holes is the system's again, but for parts of pages.
  void release();

  /// Bytes that a block of so many occupies.
  static int64_t room_for(int64_t bytes);
  /// Bytes of blocks, and of holes that are not released.
  int64_t backed_bytes() const { return backed_; }
  int64_t backed_hole_bytes() const { return backed_ - taken_; }

 private:
  bool extend(int64_t size);

  std::vector<AddressRange> mapped_;
  AddressRanges holes_, unbacked_;  // the second are parts of the first
  int64_t taken_ = 0, backed_ = 0;
};

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
