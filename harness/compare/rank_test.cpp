#include "harness/compare/rank_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace frugal::harness {
namespace {

/// Of a pooled sample: twice each value's rank, which ties make whole numbers too.
struct Ranks {
  std::vector<int64_t> doubled;  ///< of all, a's first
  int64_t of_a = 0;              ///< sum of a's
  double ties = 0;               ///< sum of n³ − n over groups of n equal values
};

Ranks ranks_of(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) throw std::invalid_argument("a rank test needs samples of both");
  std::vector<double> pooled(a.begin(), a.end());
  pooled.insert(pooled.end(), b.begin(), b.end());
  std::vector<size_t> order(pooled.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return pooled[i] < pooled[j]; });
  Ranks ranks{std::vector<int64_t>(pooled.size())};
  for (size_t first = 0, next = 0; first < order.size(); first = next) {
    while (next < order.size() && pooled[order[next]] == pooled[order[first]]) ++next;
    for (size_t i = first; i < next; ++i)
      ranks.doubled[order[i]] = static_cast<int64_t>(first + next + 1);
    const auto equal = static_cast<double>(next - first);
    ranks.ties += equal * equal * equal - equal;
  }
  ranks.of_a =
      std::accumulate(ranks.doubled.begin(),
                      ranks.doubled.begin() + static_cast<std::ptrdiff_t>(a.size()), int64_t{0});
  return ranks;
}

/// Twice the sum of a's ranks that is to be expected.
int64_t expected(size_t a, size_t all) { return static_cast<int64_t>(a * (all + 1)); }

}  // namespace

double rank_test_exact(std::span<const double> a, std::span<const double> b) {
  const Ranks ranks = ranks_of(a, b);
  const size_t chosen = a.size(), all = ranks.doubled.size();
  const auto most =
      static_cast<size_t>(std::accumulate(ranks.doubled.begin(), ranks.doubled.end(), int64_t{0}));
  // ways[k][s]: in how many ways k of the values so far have doubled ranks of sum s.
  std::vector<std::vector<double>> ways(chosen + 1, std::vector<double>(most + 1, 0));
  ways[0][0] = 1;
  for (const int64_t rank : ranks.doubled)
    for (size_t k = chosen; k >= 1; --k)
      for (size_t s = most; s >= static_cast<size_t>(rank); --s)
        ways[k][s] += ways[k - 1][s - static_cast<size_t>(rank)];
  const int64_t middle = expected(chosen, all), distance = std::abs(ranks.of_a - middle);
  double as_far = 0, total = 0;
  for (size_t s = 0; s <= most; ++s) {
    total += ways[chosen][s];
    if (std::abs(static_cast<int64_t>(s) - middle) >= distance) as_far += ways[chosen][s];
  }
  return as_far / total;
}

double rank_test_normal(std::span<const double> a, std::span<const double> b) {
  const Ranks ranks = ranks_of(a, b);
  const auto m = static_cast<double>(a.size()), n = static_cast<double>(b.size()), all = m + n;
  const double variance = m * n / 12 * (all + 1 - ranks.ties / (all * (all - 1)));
  if (variance <= 0) return 1;  // all are equal
  const double distance =
      static_cast<double>(std::abs(ranks.of_a - expected(a.size(), a.size() + b.size()))) / 2;
  const double z = std::max(0.0, distance - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

double rank_test(std::span<const double> a, std::span<const double> b) {
  return a.size() + b.size() <= exact_samples ? rank_test_exact(a, b) : rank_test_normal(a, b);
}

void adjust_by_holm(std::span<double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  double largest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    double& value = p[order[i]];
    largest = std::max(largest, std::min(1.0, value * static_cast<double>(p.size() - i)));
    value = largest;
  }
}

}  // namespace frugal::harness
