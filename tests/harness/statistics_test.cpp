#include "harness/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace frugal::harness {
namespace {

/// Normal(mean, 1) by Box–Muller, the same everywhere.
std::vector<double> normal(size_t count, double mean, std::mt19937_64& random) {
  const auto uniform = [&] {
    return (static_cast<double>(random() >> 11U) + 0.5) / 9007199254740992.0;
  };
  std::vector<double> samples(count);
  for (double& x : samples)
    x = mean + std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform());
  return samples;
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> samples{40, 10, 30, 20};  // R: quantile(c(10,20,30,40), type = 7)
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.25), 17.5);
  EXPECT_DOUBLE_EQ(median(samples), 25);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.9), 37);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 40);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_THROW(median({}), std::invalid_argument);
}

TEST(MedianEstimate, IsDeterministicAndOrdered) {
  std::mt19937_64 random(3);
  const auto samples = normal(25, 10, random);
  const Estimate one = median_estimate(samples), two = median_estimate(samples);
  EXPECT_EQ(one.interval, two.interval);
  EXPECT_LE(one.interval->low, one.value);
  EXPECT_GE(one.interval->high, one.value);
  // Few resamples, so that what they are shows in the interval.
  EXPECT_NE(median_estimate(samples, {.resamples = 5, .seed = 1}).interval,
            median_estimate(samples, {.resamples = 5, .seed = 2}).interval);
  EXPECT_FALSE(median_estimate(std::vector<double>{7}).interval);
}

/// The range of five samples misses the median in 2 · 2⁻⁵ = 6 % of all cases.
TEST(MedianEstimate, HasNoIntervalBelowSixSamples) {
  std::mt19937_64 random(11);
  for (size_t n = 1; n <= 8; ++n) {
    const Estimate estimate = median_estimate(normal(n, 1, random));
    EXPECT_EQ(estimate.interval.has_value(), n >= 6) << n;
    EXPECT_EQ(estimate.samples, static_cast<int>(n));
  }
}

TEST(MedianEstimate, CoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(5);
  constexpr int trials = 400;
  int covered = 0;
  for (int i = 0; i < trials; ++i) {
    const auto interval = median_estimate(normal(31, 2, random), {.resamples = 400}).interval;
    covered += interval->low <= 2 && 2 <= interval->high ? 1 : 0;
  }
  // 95 % ± 4 standard deviations of a binomial of 400 trials.
  EXPECT_NEAR(covered / double{trials}, 0.95, 0.045);
}

/// The median of n = 2k + 1 draws from 1, 2 … n is at most j when at least k + 1 of them are: a
/// binomial's tail. Returns its quantile.
double exact_quantile(int n, double q) {
  for (int j = 1; j <= n; ++j) {
    const double p = j / static_cast<double>(n);
    double tail = 0;
    for (int hits = (n + 1) / 2; hits <= n; ++hits)
      tail += std::exp(std::lgamma(n + 1) - std::lgamma(hits + 1) - std::lgamma(n - hits + 1)) *
              std::pow(p, hits) * std::pow(1 - p, n - hits);
    if (tail >= q) return j;
  }
  return n;
}

TEST(MedianEstimate, HasTheQuantilesOfItsExactDistributionOnBothSides) {
  for (const double level : {0.95, 0.8})
    for (const int n : {7, 15, 31, 63, 127}) {
      std::vector<double> samples;
      for (int i = 1; i <= n; ++i) samples.push_back(i);
      const Bootstrap bootstrap{.level = level, .resamples = 20000};
      const auto interval = median_estimate(samples, bootstrap).interval;
      const double tail = (1 - level) / 2;
      const double sampling = 5 * std::sqrt(tail * (1 - tail) / bootstrap.resamples);
      EXPECT_GE(interval->low, exact_quantile(n, tail - sampling)) << n << ", " << level;
      EXPECT_LE(interval->low, exact_quantile(n, tail + sampling)) << n << ", " << level;
      EXPECT_GE(interval->high, exact_quantile(n, 1 - tail - sampling)) << n << ", " << level;
      EXPECT_LE(interval->high, exact_quantile(n, 1 - tail + sampling)) << n << ", " << level;
    }
}

/// Textbook tables of the sign test at 95 %: the ranks of its ends among n samples.
TEST(ExactMedian, HasTheRanksOfTheSignTest) {
  const std::pair<int, std::pair<int, int>> table[] = {{6, {1, 6}},   {8, {1, 8}},   {9, {2, 8}},
                                                       {10, {2, 9}},  {15, {4, 12}}, {20, {6, 15}},
                                                       {25, {8, 18}}, {30, {10, 21}}};
  for (const auto& [n, ends] : table) {
    std::vector<double> samples;
    for (int i = n; i >= 1; --i) samples.push_back(i);
    const Estimate estimate = exact_median(samples);
    EXPECT_EQ(estimate.interval, (Interval{1.0 * ends.first, 1.0 * ends.second})) << n;
    EXPECT_EQ(estimate.value, (n + 1) / 2.0);
    EXPECT_EQ(estimate.samples, n);
    EXPECT_EQ(estimate.early.has_value(), n >= 9) << n;  // 2 · 2⁻⁹ is less than 1/200
  }
  EXPECT_FALSE(exact_median(std::vector<double>(5, 1)).interval);
  EXPECT_EQ(exact_median(std::vector<double>(5000, 1)).early, (Interval{1, 1}));
  EXPECT_THROW(exact_median({}), std::invalid_argument);
}

TEST(ExactMedian, OfSeveralTestsTogetherIsWider) {
  std::vector<double> samples;
  for (int i = 1; i <= 20; ++i) samples.push_back(i);
  // P(at most 3 of 20 coins) is 0.13 %, of 4 0.59 %: 5 % of six tests is 0.42 % on each side.
  EXPECT_EQ(exact_median(samples, 6).interval, (Interval{4, 17}));
}

/// At the numbers of samples that there are, of symmetric, skewed and disturbed times.
TEST(ExactMedian, CoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(20261128);
  const auto skewed = [](double z) { return std::exp(z); };
  const auto disturbed = [](double z) { return std::abs(z) < 1.2 ? z : z * z * z; };
  const auto plain = [](double z) { return z; };
  constexpr int trials = 4000;
  for (double (*shape)(double) : {+plain, +skewed, +disturbed})
    for (const size_t n : {6U, 7U, 10U, 12U, 20U, 40U}) {
      int above = 0, below = 0;
      for (int i = 0; i < trials; ++i) {
        std::vector<double> samples = normal(n, 0, random);
        for (double& x : samples) x = shape(x);
        const auto interval = exact_median(samples).interval;
        above += interval->low > shape(0) ? 1 : 0;
        below += interval->high < shape(0) ? 1 : 0;
      }
      // 2.5 % on each side at most, with 4 standard deviations of a binomial.
      EXPECT_LE(above / double{trials}, 0.025 + 0.01) << n;
      EXPECT_LE(below / double{trials}, 0.025 + 0.01) << n;
    }
}

TEST(PairedRatio, CancelsWhatSlowsBothDown) {
  std::mt19937_64 random(7);
  std::vector<double> a, b;
  for (int i = 0; i < 20; ++i) {
    const double slow = 1 + static_cast<double>(random() % 100) / 10;  // up to 11 times slower
    a.push_back(3 * slow);
    b.push_back(2 * slow);
  }
  const Estimate ratio = paired_ratio(a, b);
  EXPECT_NEAR(ratio.value, 1.5, 1e-12);
  EXPECT_NEAR(ratio.interval->high - ratio.interval->low, 0, 1e-12);
  EXPECT_THROW(paired_ratio(a, std::vector<double>{1}), std::invalid_argument);
  EXPECT_THROW(paired_ratio({}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace frugal::harness
