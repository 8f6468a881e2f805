#include "harness/compare/rank_test.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

namespace frugal::harness {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

/// The statistic's definition, for each division of the pooled values: how often the wins of one
/// part over the other (ties count half) are as far from their mean as those seen.
double by_all_divisions(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> pooled = a;
  pooled.insert(pooled.end(), b.begin(), b.end());
  const auto wins = [&](unsigned chosen) {
    double count = 0;
    for (size_t i = 0; i < pooled.size(); ++i)
      for (size_t j = 0; j < pooled.size(); ++j)
        if ((chosen >> i & 1U) != 0 && (chosen >> j & 1U) == 0)
          count += pooled[i] > pooled[j] ? 1 : pooled[i] == pooled[j] ? 0.5 : 0;
    return count;
  };
  const double middle = static_cast<double>(a.size() * b.size()) / 2;
  const double seen = std::abs(wins((1U << a.size()) - 1) - middle);
  int as_far = 0, divisions = 0;
  for (unsigned chosen = 0; chosen < 1U << pooled.size(); ++chosen) {
    if (static_cast<size_t>(__builtin_popcount(chosen)) != a.size()) continue;
    ++divisions;
    as_far += std::abs(wins(chosen) - middle) >= seen - 1e-9 ? 1 : 0;
  }
  return static_cast<double>(as_far) / divisions;
}

TEST(RankTest, CountsAllDivisionsOfThePooledValues) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    // Few different values: many ties.
    std::vector<double> a(2 + random() % 4), b(2 + random() % 4);
    for (auto* side : {&a, &b})
      for (double& x : *side) x = static_cast<double>(random() % (trial % 2 == 0 ? 5 : 1000));
    EXPECT_THAT(rank_test_exact(a, b), DoubleNear(by_all_divisions(a, b), 1e-12));
  }
}

TEST(RankTest, OfValuesThatAreAllApartIsTheRarestDivision) {
  // 2 of the C(6, 3) = 20 and of the C(12, 6) = 924 divisions.
  EXPECT_DOUBLE_EQ(rank_test(std::vector{1., 2., 3.}, std::vector{4., 5., 6.}), 0.1);
  EXPECT_DOUBLE_EQ(
      rank_test(std::vector{7., 8., 9., 10., 11., 12.}, std::vector{1., 2., 3., 4., 5., 6.}),
      2. / 924);
}

TEST(RankTest, IsApproximatedForManySamplesByWhatItIsExactly) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> a(28), b(30);
    for (double& x : a) x = normal(random);
    for (double& x : b) x = normal(random) + 0.1 * trial;
    const double exact = rank_test_exact(a, b);
    EXPECT_THAT(rank_test_normal(a, b), DoubleNear(exact, 0.02 * exact + 0.002));
  }
}

/// 2 of the 30 pairs are won where 15 are expected, with a variance of 5 · 6 · 12 / 12: z is 13
/// less a half for continuity, over the root of 30.
TEST(RankTest, ApproximationIsCorrectedForContinuity) {
  EXPECT_NEAR(
      rank_test_normal(std::vector{1., 2., 3., 4., 5.}, std::vector{3.5, 6., 7., 8., 9., 10.}),
      0.02247887336612529, 1e-12);
}

TEST(RankTest, OfEqualValuesSaysNothing) {
  EXPECT_EQ(rank_test_exact(std::vector{2., 2.}, std::vector{2., 2., 2.}), 1);
  EXPECT_EQ(rank_test_normal(std::vector{2., 2.}, std::vector{2., 2., 2.}), 1);
  EXPECT_THROW(rank_test({}, std::vector{1.}), std::invalid_argument);
}

TEST(RankTest, IsAdjustedForTestsThatAreMadeTogether) {
  std::vector<double> p = {0.01, 0.5, 0.04, 0.03};
  adjust_by_holm(p);  // times 4, 3, 2 and 1 in their order, and none below one before it
  EXPECT_THAT(p, ElementsAre(DoubleNear(0.04, 1e-12), DoubleNear(0.5, 1e-12),
                             DoubleNear(0.09, 1e-12), DoubleNear(0.09, 1e-12)));
}

}  // namespace
}  // namespace frugal::harness
