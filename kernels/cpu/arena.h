#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cpu/address_ranges.h"

namespace frugal::kernels {

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

}  // namespace frugal::kernels
