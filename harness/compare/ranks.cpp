#include "harness/compare/ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace frugal::harness {

Ranks ranks_of(std::span<const double> values) {
  if (std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); }))
    throw std::invalid_argument("what is not a number has no rank");
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  Ranks ranks{std::vector<int64_t>(values.size())};
  for (size_t first = 0, next = 0; first < order.size(); first = next) {
    while (next < order.size() && values[order[next]] == values[order[first]]) ++next;
    for (size_t i = first; i < next; ++i)
      ranks.doubled[order[i]] = static_cast<int64_t>(first + next + 1);
    const auto equal = static_cast<double>(next - first);
    ranks.ties += equal * equal * equal - equal;
  }
  return ranks;
}

}  // namespace frugal::harness
