#include "harness/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace frugal::harness {
namespace {

double quantile_of_sorted(const std::vector<double>& sorted, double q) {
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - std::floor(position));
}

/// How many order statistics are outside of an interval on each side, its bound included: it misses
/// the median there where fewer than that of n fair coins fall on one side.
size_t outside(size_t n, double level) {
  double logarithm = -static_cast<double>(n) * std::log(2), fewer = 0;  // of P(`count` fall there)
  size_t count = 0;
  while (fewer += std::exp(logarithm), fewer <= (1 - level) / 2) {
    logarithm += std::log(static_cast<double>(n - count) / static_cast<double>(count + 1));
    ++count;
  }
  return count;
}

std::optional<Interval> interval_of_sorted(const std::vector<double>& sorted, double level) {
  const size_t count = outside(sorted.size(), level);
  if (count == 0) return std::nullopt;
  return Interval{sorted[count - 1], sorted[sorted.size() - count]};
}

std::vector<double> ratios_of(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.empty())
    throw std::invalid_argument("paired samples must be equally many, and at least one");
  std::vector<double> ratios(a.size());
  for (size_t i = 0; i < a.size(); ++i) ratios[i] = a[i] / b[i];
  return ratios;
}

}  // namespace

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) throw std::invalid_argument("a quantile needs at least one sample");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_of_sorted(sorted, q);
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

Estimate quantile_estimate(std::span<const double> samples, double q, const Bootstrap& bootstrap) {
  Estimate estimate{quantile(samples, q), {}, static_cast<int>(samples.size())};
  if (samples.size() < interval_minimum) return estimate;
  std::mt19937_64 random(bootstrap.seed);
  std::vector<double> quantiles, drawn(samples.size());
  for (int i = 0; i < bootstrap.resamples; ++i) {
    for (double& x : drawn) x = samples[random() % samples.size()];
    std::sort(drawn.begin(), drawn.end());
    quantiles.push_back(quantile_of_sorted(drawn, q));
  }
  std::sort(quantiles.begin(), quantiles.end());
  const double tail = (1 - bootstrap.level) / 2;
  estimate.interval = {quantile_of_sorted(quantiles, tail),
                       quantile_of_sorted(quantiles, 1 - tail)};
  return estimate;
}

Estimate median_estimate(std::span<const double> samples, const Bootstrap& bootstrap) {
  return quantile_estimate(samples, 0.5, bootstrap);
}

Estimate exact_median(std::span<const double> samples, int tests) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double level) { return interval_of_sorted(sorted, 1 - (1 - level) / tests); };
  return {median(samples), at(final_level), static_cast<int>(samples.size()), at(early_level)};
}

Estimate exact_ratio(std::span<const double> a, std::span<const double> b, int tests) {
  return exact_median(ratios_of(a, b), tests);
}

Estimate paired_ratio(std::span<const double> a, std::span<const double> b,
                      const Bootstrap& bootstrap) {
  return median_estimate(ratios_of(a, b), bootstrap);
}

}  // namespace frugal::harness
