#include "harness/calibrate/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace frugal::harness {
namespace {

using Vector = std::vector<double>;

TEST(LeastSquares, FindsWhatMadeTheNumbers) {
  const auto decay = [](double size, double rate, double x) { return size * std::exp(-rate * x); };
  const auto residuals = [&](const Vector& v) {
    Vector all;
    for (int x = 0; x < 8; ++x) all.push_back(decay(v[0], v[1], x) - decay(3e-6, 0.4, x));
    return all;
  };
  const LeastSquares found = least_squares(residuals, {{1e-6, 1e-9, 1}, {0.9, 1e-3, 1}});
  EXPECT_NEAR(found.values[0] / 3e-6, 1, 1e-5);
  EXPECT_NEAR(found.values[1], 0.4, 1e-5);
}

/// Of residuals a·x − y the sum of squares is known, and how it grows.
TEST(LeastSquares, IsFlatWithinWhatLetsTheSumGrowByAPercent) {
  const Vector a{1, 2, 3}, y{1.1, 1.9, 3.2};
  const auto residuals = [&](const Vector& v) {
    Vector all;
    for (size_t i = 0; i < a.size(); ++i) all.push_back(a[i] * v[0] - y[i]);
    return all;
  };
  const auto sum = [&](double x) {
    double all = 0;
    for (const double r : residuals({x})) all += r * r;
    return all;
  };
  const LeastSquares found = least_squares(residuals, {{5, 0.1, 50}});
  const double best = (1.1 + 2 * 1.9 + 3 * 3.2) / (1 + 4 + 9);
  EXPECT_NEAR(found.values[0], best, 1e-6);
  EXPECT_NEAR(sum(best + found.flat[0]) / sum(best), 1.01, 1e-5);
}

/// The sum of squares of two that depend on each other is as flat as one is when the other follows.
TEST(LeastSquares, IsFlatterWhereAnotherFollows) {
  const auto residuals = [](const Vector& v) {
    return Vector{v[0] + v[1] - 3, v[0] + 1.1 * v[1] - 3.3, v[0] + 0.9 * v[1] - 2.9};
  };
  const auto alone = [&](const Vector& v) { return residuals({v[0], 2}); };
  const std::vector<Unknown> unknowns{{2, 0.1, 9}, {2, 0.1, 9}};
  EXPECT_GT(least_squares(residuals, unknowns).flat[0],
            5 * least_squares(alone, {unknowns[0]}).flat[0]);
}

TEST(LeastSquares, StaysWithinBounds) {
  const auto residuals = [](const Vector& v) { return Vector{v[0] - 2, v[1] - 0.3}; };
  const LeastSquares found = least_squares(residuals, {{0.5, 0.001, 0.9}, {0.5, 0.4, 1}});
  EXPECT_DOUBLE_EQ(found.values[0], 0.9);
  EXPECT_DOUBLE_EQ(found.values[1], 0.4);
}

TEST(LeastSquares, EndsInAKink) {
  const auto residuals = [](const Vector& v) {
    return Vector{std::max(v[0], 0.6) - 0.2, 0.5 * std::max(0.6 - v[0], 0.0), v[1] - 0.25};
  };
  const LeastSquares found = least_squares(residuals, {{0.9, 0.001, 1}, {0.9, 0.001, 1}});
  EXPECT_NEAR(found.values[0], 0.6, 1e-3);
  EXPECT_NEAR(found.values[1], 0.25, 1e-3);
}

TEST(LeastSquares, SaysWhatDoesNotMatterAndLeavesItWhereItIs) {
  const auto residuals = [](const Vector& v) { return Vector{v[1] - 0.25}; };
  const LeastSquares found = least_squares(residuals, {{0.5, 0.001, 1}, {0.5, 0.001, 1}});
  EXPECT_EQ(found.matters, (std::vector<bool>{false, true}));
  EXPECT_DOUBLE_EQ(found.values[0], 0.5);
  EXPECT_NEAR(found.values[1], 0.25, 1e-6);
  EXPECT_TRUE(std::isinf(found.flat[0]));
}

}  // namespace
}  // namespace frugal::harness
