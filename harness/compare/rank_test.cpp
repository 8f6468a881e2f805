#include "harness/compare/rank_test.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness/compare/ranks.h"

namespace frugal::harness {
namespace {

/// Of a's and b's values, and the sum of a's.
struct PooledRanks : Ranks {
  int64_t of_a = 0;
};

PooledRanks pooled_ranks(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) throw std::invalid_argument("a rank test needs samples of both");
  std::vector<double> pooled(a.begin(), a.end());
  pooled.insert(pooled.end(), b.begin(), b.end());
  PooledRanks ranks{ranks_of(pooled)};
  for (size_t i = 0; i < a.size(); ++i) ranks.of_a += ranks.doubled[i];
  return ranks;
}

/// Twice the sum of a's ranks that is to be expected.
int64_t expected(size_t a, size_t all) { return static_cast<int64_t>(a * (all + 1)); }

}  // namespace

double rank_test_exact(std::span<const double> a, std::span<const double> b) {
  const PooledRanks ranks = pooled_ranks(a, b);
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
  const PooledRanks ranks = pooled_ranks(a, b);
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

double smallest_rank_p(size_t a, size_t b) {
  double divisions = 1;
  for (size_t i = 1; i <= a; ++i)
    divisions = divisions * static_cast<double>(b + i) / static_cast<double>(i);
  return std::min(1.0, 2 / divisions);
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
