#include "kernels/cpu/address_ranges.h"

#include <algorithm>
#include <iterator>

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

}  // namespace frugal::kernels
