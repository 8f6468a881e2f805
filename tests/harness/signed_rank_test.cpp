#include "harness/compare/signed_rank.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

namespace frugal::harness {
namespace {

using ::testing::DoubleNear;

/// The statistic's definition for each of the 2^n draws of signs: among all pairs of differences,
/// each with itself as well, how many have a mean above zero (ties count half).
double by_all_signs(const std::vector<double>& differences) {
  const auto distance = [&](unsigned flipped) {
    double wins = 0, pairs = 0;
    const auto signed_of = [&](size_t i) {
      return (flipped >> i & 1U) != 0 ? -differences[i] : differences[i];
    };
    for (size_t i = 0; i < differences.size(); ++i)
      for (size_t j = 0; j <= i; ++j) {
        const double sum = signed_of(i) + signed_of(j);
        wins += sum > 0 ? 1 : sum == 0 ? 0.5 : 0;
        ++pairs;
      }
    return std::abs(wins - pairs / 2);
  };
  int as_far = 0;
  const unsigned draws = 1U << differences.size();
  for (unsigned flipped = 0; flipped < draws; ++flipped)
    as_far += distance(flipped) >= distance(0) - 1e-9 ? 1 : 0;
  return static_cast<double>(as_far) / draws;
}

std::vector<double> random_differences(std::mt19937& random, size_t count, int values) {
  std::vector<double> all(count);
  for (double& x : all) x = static_cast<double>(random() % (2 * values + 1)) - values;
  return all;
}

TEST(SignedRank, CountsAllDrawsOfSigns) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    // Few different values: many ties.
    auto differences = random_differences(random, 1 + random() % 9, trial % 2 == 0 ? 4 : 1000);
    for (double& x : differences)
      if (x == 0) x = 1;
    EXPECT_THAT(signed_rank_test(differences), DoubleNear(by_all_signs(differences), 1e-12));
  }
}

TEST(SignedRank, OfDifferencesOfOneSignIsTheRarestDraw) {
  EXPECT_DOUBLE_EQ(signed_rank_test(std::vector{1., 2., 3., 4., 5., 6.}), 2. / 64);
  EXPECT_DOUBLE_EQ(signed_rank_test(std::vector{-1., -1., -1.}), 2. / 8);
  EXPECT_DOUBLE_EQ(smallest_signed_rank_p(6), 2. / 64);
  EXPECT_DOUBLE_EQ(signed_rank_test(std::vector<double>(200, 1)), std::exp2(-199));
}

TEST(SignedRank, OfZerosSaysNothing) {
  EXPECT_EQ(signed_rank_test(std::vector{0., 0., 0.}), 1);
  // A zero has the lowest rank, so that the others have 2 and 3: 2 + 3 is as rare as -2 - 3.
  EXPECT_DOUBLE_EQ(signed_rank_test(std::vector{0., 1., 2.}), 2. / 4);
  EXPECT_THROW(signed_rank_test({}), std::invalid_argument);
}

TEST(SignedRank, IntervalHasWhatTheTestDoesNotTellApart) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (size_t count : {6, 9, 16}) {
    std::vector<double> differences(count);
    for (double& x : differences) x = normal(random);
    const Interval interval = *center_of(differences).interval;
    const auto p_at = [&](double center) {
      std::vector<double> moved = differences;
      for (double& x : moved) x -= center;
      return signed_rank_test(moved);
    };
    constexpr double little = 1e-9;
    EXPECT_GT(p_at(interval.low + little), 0.05);
    EXPECT_LE(p_at(interval.low - little), 0.05);
    EXPECT_GT(p_at(interval.high - little), 0.05);
    EXPECT_LE(p_at(interval.high + little), 0.05);
  }
  // Of 5, the rarest draw happens in 2 of 32.
  EXPECT_FALSE(center_of(std::vector{1., 2., 3., 4., 5.}).interval);
}

TEST(SignedRank, CenterIsTheMedianOfAllMeansOfTwo) {
  // 1, 2, 9; 1.5, 5, 5.5.
  EXPECT_DOUBLE_EQ(center_of(std::vector{1., 9., 2.}).value, 3.5);
}

}  // namespace
}  // namespace frugal::harness
