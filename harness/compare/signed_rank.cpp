#include "harness/compare/signed_rank.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness/compare/ranks.h"

namespace frugal::harness {
namespace {

/// The probability of each sum of those ranks that a coin chooses.
std::vector<double> chosen_sums(const std::vector<int64_t>& ranks) {
  const int64_t most = std::accumulate(ranks.begin(), ranks.end(), int64_t{0});
  std::vector<double> probability(static_cast<size_t>(most) + 1, 0);
  probability[0] = 1;
  for (const int64_t rank : ranks) {
    const auto step = static_cast<size_t>(rank);
    for (size_t s = probability.size(); s-- > 0;)
      probability[s] = 0.5 * (probability[s] + (s >= step ? probability[s - step] : 0));
  }
  return probability;
}

/// Means of each two differences, and of each with itself, in order.
std::vector<double> pair_means(std::span<const double> differences) {
  std::vector<double> means;
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = 0; j <= i; ++j) means.push_back((differences[i] + differences[j]) / 2);
  std::sort(means.begin(), means.end());
  return means;
}

/// How many of the outermost means on each side are beyond the interval, itself included: the test
/// rejects a center with fewer means than that on one side of it.
size_t outermost(size_t differences, double level) {
  std::vector<int64_t> ranks(differences);
  std::iota(ranks.begin(), ranks.end(), int64_t{1});
  size_t count = 0;
  double below = 0;
  for (const double probability : chosen_sums(ranks)) {
    below += probability;
    if (below > (1 - level) / 2) break;
    ++count;
  }
  return count;
}

void check(std::span<const double> differences) {
  if (differences.empty()) throw std::invalid_argument("a signed-rank test needs differences");
}

}  // namespace

double signed_rank_test(std::span<const double> differences) {
  check(differences);
  std::vector<double> sizes;
  for (const double x : differences) sizes.push_back(std::abs(x));
  const std::vector<int64_t> all = ranks_of(sizes).doubled;
  std::vector<int64_t> with_sign;
  int64_t positive = 0;
  for (size_t i = 0; i < differences.size(); ++i) {
    if (differences[i] == 0) continue;
    with_sign.push_back(all[i]);
    if (differences[i] > 0) positive += all[i];
  }
  const std::vector<double> probability = chosen_sums(with_sign);
  const auto most = static_cast<int64_t>(probability.size()) - 1;
  double as_far = 0;
  for (int64_t s = 0; s <= most; ++s)
    if (std::abs(2 * s - most) >= std::abs(2 * positive - most))
      as_far += probability[static_cast<size_t>(s)];
  return std::min(1.0, as_far);
}

double smallest_signed_rank_p(size_t differences) {
  return std::min(1.0, std::exp2(1 - static_cast<double>(differences)));
}

Estimate center_of(std::span<const double> differences, double level) {
  check(differences);
  const std::vector<double> means = pair_means(differences);
  Estimate center{median(means), {}, static_cast<int>(differences.size())};
  if (const size_t count = outermost(differences.size(), level); count > 0)
    center.interval = {means[count - 1], means[means.size() - count]};
  return center;
}

}  // namespace frugal::harness
