#pragma once
#include <cstdint>
#include <map>
#include <optional>

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

}  // namespace frugal::kernels
