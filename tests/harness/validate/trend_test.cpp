#include "harness/validate/trend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace frugal::harness {
namespace {

/// Times of a watch of so many seconds, ten a second: what a moment says, and noise on top that
/// only ever makes longer, as others do.
struct SimulatedWatch {
  std::vector<double> at, seconds;

  SimulatedWatch(double length, uint64_t seed, double noise,
                 const std::function<double(double)>& seconds_at) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> longer(1);
    for (int i = 0; i < static_cast<int>(10 * length); ++i) {
      at.push_back(0.1 * i);
      seconds.push_back(seconds_at(at.back()) * (1 + noise * longer(random)));
    }
  }
  Trend trend() const { return trend_of(at, seconds, at.back() / 16).value(); }
};

TEST(Trend, OfAnExactLineIsTheLine) {
  const SimulatedWatch watch(60, 1, 0, [](double t) { return 1e-3 * std::exp(0.002 * t); });
  const Trend trend = watch.trend();
  const double length = 60 * trend.minutes;
  EXPECT_NEAR(trend.change, std::expm1(0.002 * length), 1e-9);
  EXPECT_NEAR(trend.interval.low, trend.change, 1e-9);
  EXPECT_NEAR(trend.interval.high, trend.change, 1e-9);
  EXPECT_NEAR(trend.envelope, std::expm1(0.002 * 0.75 * length), 0.01);
}

/// Sen's interval of the ranks 1 … n without ties, where the slopes are known.
TEST(Trend, HasSensInterval) {
  std::vector<double> at, seconds;
  for (int i = 0; i < 10; ++i) {
    at.push_back(i);
    seconds.push_back(std::exp(0.01 * i + (i % 2 == 0 ? 0.004 : -0.004)));
  }
  const Trend trend = trend_of(at, seconds, 1).value();
  EXPECT_EQ(trend.blocks, 10U);
  EXPECT_LT(trend.interval.low, trend.change);
  EXPECT_GT(trend.interval.high, trend.change);
  // 45 slopes; C = 2.576 √(10·9·25/18) = 28.8; ranks (22 ± 14.4) from 0: 8 and 36.
  std::vector<double> slopes;
  for (size_t i = 0; i < 10; ++i)
    for (size_t j = i + 1; j < 10; ++j)
      slopes.push_back((std::log(seconds[j]) - std::log(seconds[i])) / (at[j] - at[i]));
  std::sort(slopes.begin(), slopes.end());
  EXPECT_NEAR(trend.interval.low, std::expm1(9 * slopes[8]), 1e-12);
  EXPECT_NEAR(trend.interval.high, std::expm1(9 * slopes[36]), 1e-12);
}

TEST(Trend, ThereIsNoneOfTooLittle) {
  const std::vector<double> few = {0, 1, 2};
  EXPECT_FALSE(trend_of(few, std::vector<double>{1, 1, 1}, 1));
  EXPECT_FALSE(trend_of({}, {}, 1));
}

TEST(Drifts, FindsTenPercentAMinuteInNoise) {
  for (const double length : {38.0, 60.0, 80.0})
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      const SimulatedWatch watch(length, seed, 0.05,
                                 [](double t) { return 1e-3 * (1 + 0.1 * (t + 5) / 60); });
      EXPECT_TRUE(drifts(watch.trend())) << length << " s, seed " << seed;
    }
}

TEST(Drifts, NoiseAloneIsNone) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const SimulatedWatch watch(38, seed, 0.3, [](double) { return 1e-3; });
    EXPECT_FALSE(drifts(watch.trend())) << seed;
  }
}

/// A neighbour that comes and goes, one that comes in the middle and leaves a moment now and then,
/// and a device that becomes faster.
TEST(Drifts, WhatComesAndGoesIsNone) {
  const std::function<double(double)> shapes[] = {
      [](double t) { return t > 10 && t < 30 ? 1.3e-3 : 1e-3; },
      [](double t) { return t > 20 && std::fmod(t, 2) > 0.3 ? 1.5e-3 : 1e-3; },
      [](double t) { return 1e-3 * (1 - 0.1 * t / 60); }};
  for (const auto& shape : shapes)
    for (uint64_t seed = 1; seed <= 50; ++seed)
      EXPECT_FALSE(drifts(SimulatedWatch(38, seed, 0.02, shape).trend())) << seed;
}

/// As of clocks that fall with heat by themselves.
TEST(Drifts, TwoPercentIsNone) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const SimulatedWatch watch(60, seed, 0.02, [](double t) { return 1e-3 * (1 + 0.02 * t / 60); });
    EXPECT_FALSE(drifts(watch.trend())) << seed;
  }
}

}  // namespace
}  // namespace frugal::harness
