// How exact exponentials are, seen through an operation that writes them: the gradient of
// cross-entropy, whose statistics say that the maximum is 0 and the sum 1.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/cpu_levels.h"

namespace frugal::kernels {
namespace {

/// e^x, rounded to T.
template <class T>
std::vector<double> exponentials(CpuDevice& device, std::vector<float> x) {
  const auto cols = static_cast<int64_t>(x.size());
  float statistics[] = {0, 1, 0}, loss = 0;
  int32_t elsewhere = static_cast<int32_t>(cols);
  std::vector<T> y(x.size());
  device.execute(CrossEntropy{.logits = {x.data(), DType::f32, {1, cols}},
                              .labels = {&elsewhere, DType::i32, {1}},
                              .statistics = {statistics, DType::f32, {1, 1, 3}},
                              .loss = {&loss, DType::f32, {1}},
                              .gradient = {y.data(), dtype_of<T>, {1, cols}}});
  std::vector<double> result;
  for (const T value : y) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

std::vector<float> arguments() {
  std::vector<float> x;
  for (int i = 0; i < 200003; ++i) x.push_back(-104.0F * static_cast<float>(i) / 200003);
  return x;
}

constexpr double least_normal = 0x1p-126;

/// The last place of a number with so many bits after the first.
double unit(double x, int bits) { return std::exp2(std::floor(std::log2(x)) - bits); }

/// Every level against float64; `allowed` is the error that a result may have at x.
template <class T, class Allowed>
void expect_exponentials(const Allowed& allowed) {
  const std::vector<float> x = arguments();
  at_each_level([&](CpuDevice& device) {
    const std::vector<double> y = exponentials<T>(device, x);
    EXPECT_EQ(y[0], 1);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      const double error = expected < least_normal ? least_normal : allowed(x[i], expected);
      ASSERT_NEAR(y[i], expected, error) << "e^" << x[i];
    }
  });
}

TEST(Exponential, IsWithin5UnitsInTheLastPlaceInFloat32) {
  expect_exponentials<float>(
      [](float x, double expected) { return (x > -20 ? 3 : 5) * unit(expected, 23); });
}

/// Half a unit for rounding to bf16; 3e-6 of the polynomial, and of the exponent in float32 at most
/// half a unit of 126 and the error of log2 e.
TEST(Exponential, IsRoundedOnlyOnceInBf16) {
  expect_exponentials<Bf16>(
      [](float, double expected) { return unit(expected, 7) / 2 + expected * 1e-5; });
}

TEST(Exponential, OfWhatIsFarAwayIs0AndOfNanNan) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-200, -1e30F, -infinity, std::nanf("")};
  at_each_level([&](CpuDevice& device) {
    for (const auto& y : {exponentials<float>(device, x), exponentials<Bf16>(device, x)}) {
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0, 1e-44) << "e^" << x[i];
      EXPECT_TRUE(std::isnan(y[3]));
    }
  });
}

constexpr std::array far{50.0F, 1e4F, 1e13F, 1e18F, 1e30F};

template <class T>
double number(T value) {
  return static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(value));
}

template <class T>
View rows_of(std::vector<T>& values, int64_t rows) {
  return {values.data(), dtype_of<T>, {rows, static_cast<int64_t>(values.size()) / rows}};
}

/// GELU is x or 0, and its slope 1 or 0, where e^(−2u) overflows or vanishes.
template <class T>
void saturates_in_gelu() {
  std::vector<T> x, one(2 * far.size(), T(1)), y(one.size()), slope(one.size());
  for (const float size : far)
    for (const float sign : {-1.0F, 1.0F}) x.push_back(T(sign * size));
  at_each_level([&](CpuDevice& device) {
    device.execute(Gelu{.x = rows_of(x, 1), .y = rows_of(y, 1)});
    device.execute(
        GeluBackward{.x = rows_of(x, 1), .dy = rows_of(one, 1), .dx = rows_of(slope, 1)});
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(number(y[i]), i % 2 == 0 ? 0 : number(x[i])) << number(x[i]);
      EXPECT_EQ(number(slope[i]), i % 2) << number(x[i]);
    }
  });
}
TEST(Exponential, SaturatesInGelu) {
  saturates_in_gelu<float>();
  saturates_in_gelu<Bf16>();
  saturates_in_gelu<double>();
}

/// Gates of a gated unit, on the other side of which is 1.
template <class T>
void saturates_in_gates() {
  std::vector<T> x, one(2 * far.size(), T(1)), y(one.size()), dx(2 * one.size());
  for (const float size : far)
    for (const float sign : {-1.0F, 1.0F}) x.insert(x.end(), {T(sign * size), T(1)});
  const auto rows = static_cast<int64_t>(one.size());
  at_each_level([&](CpuDevice& device) {
    for (const Gate gate : {Gate::silu, Gate::gelu}) {
      device.execute(GatedUnit{.x = rows_of(x, rows), .y = rows_of(y, rows), .gate = gate});
      device.execute(GatedUnitBackward{
          .x = rows_of(x, rows), .dy = rows_of(one, rows), .dx = rows_of(dx, rows), .gate = gate});
      for (size_t i = 0; i < y.size(); ++i) {
        const double value = i % 2 == 0 ? 0 : number(x[2 * i]);
        EXPECT_NEAR(number(y[i]), value, 1e-19) << number(x[2 * i]);
        EXPECT_NEAR(number(dx[2 * i]), i % 2, 1e-19) << number(x[2 * i]);
        EXPECT_NEAR(number(dx[2 * i + 1]), value, 1e-19) << number(x[2 * i]);
      }
    }
  });
}
TEST(Exponential, SaturatesInGates) {
  saturates_in_gates<float>();
  saturates_in_gates<Bf16>();
  saturates_in_gates<double>();
}

/// Near 0, where it is its argument, and from where it is 1.
TEST(HyperbolicTangent, IsWithin4UnitsInTheLastPlaceInFloat32) {
  std::vector<float> x, y;
  for (int i = -100000; i <= 100000; ++i) {
    x.push_back(12.0F * static_cast<float>(i) / 100000);
    x.push_back(std::ldexp(i < 0 ? -1.1F : 1.1F, -i / 1000));
  }
  x.insert(x.end(), {100.0F, 1e30F, std::numeric_limits<float>::infinity()});
  y.resize(x.size());
  const auto size = static_cast<int64_t>(x.size());
  at_each_level([&](CpuDevice& device) {
    device.execute(
        SoftCap{.x = {x.data(), DType::f32, {size}}, .y = {y.data(), DType::f32, {size}}});
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::tanh(static_cast<double>(x[i]));
      const double error = expected == 0 ? 0 : 4 * unit(std::abs(expected), 23);
      ASSERT_NEAR(static_cast<double>(y[i]), expected, error) << "tanh " << x[i];
    }
  });
}

/// The largest element's exponent is exactly 0, however large the element.
TEST(Exponential, OfTheLargestIsOneInSoftmax) {
  for (const float largest : {-3e38F, -12345.678F, 54321.9F, 3e38F}) {
    for (const float scale : {0.1F, -0.1F}) {
      std::vector<float> x(40, scale > 0 ? -3.4e38F : 3.4e38F), p(40);
      x[7] = largest;
      x[21] = largest;
      at_each_level([&](CpuDevice& device) {
        device.execute(Softmax{.x = {x.data(), DType::f32, {1, 1, 40}},
                               .p = {p.data(), DType::f32, {1, 1, 40}},
                               .scale = scale,
                               .dropout = {}});
        for (size_t i = 0; i < p.size(); ++i)
          EXPECT_EQ(p[i], i == 7 || i == 21 ? 0.5F : 0) << largest << " " << i;
      });
    }
  }
}

/// Masked out columns add nothing, wherever they are.
TEST(Exponential, OfMinusInfinityAddsNothingToCrossEntropy) {
  std::vector<float> logits(9000, -std::numeric_limits<float>::infinity());
  logits[8999] = 3;
  int32_t label = 8999;
  at_each_level([&](CpuDevice& device) {
    for (const int64_t cols : {int64_t{9000}, int64_t{5000}}) {
      float statistics[3] = {};
      device.execute(CrossEntropyStatistics{.logits = {logits.data(), DType::f32, {1, cols}},
                                            .labels = {&label, DType::i32, {1}},
                                            .statistics = {statistics, DType::f32, {1, 3}}});
      EXPECT_EQ(statistics[1], cols == 9000 ? 1 : 0);
    }
  });
}

}  // namespace
}  // namespace frugal::kernels
