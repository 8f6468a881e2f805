// How exact exponentials are, seen through an operation that writes them: the gradient of
// cross-entropy, whose statistics say that the maximum is 0 and the sum 1.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/cpu_levels.h"

namespace frugal::kernels {
namespace {

/// e^x of each level, rounded to T.
template <class T>
std::vector<double> exponentials(std::vector<float> x) {
  const auto cols = static_cast<int64_t>(x.size());
  float statistics[] = {0, 1, 0}, loss = 0;
  int32_t elsewhere = static_cast<int32_t>(cols);
  std::vector<T> y(x.size());
  CpuDevice device(1);
  device.execute(CrossEntropy{.logits = {x.data(), DType::f32, {1, cols}},
                              .labels = {&elsewhere, DType::i32, {1}},
                              .statistics = {statistics, DType::f32, {1, 1, 3}},
                              .loss = {&loss, DType::f32, {1}},
                              .gradient = {y.data(), dtype_of<T>, {1, cols}}});
  device.synchronize();
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
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    const std::vector<double> y = exponentials<T>(x);
    EXPECT_EQ(y[0], 1);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      const double error = expected < least_normal ? least_normal : allowed(x[i], expected);
      ASSERT_NEAR(y[i], expected, error) << level << " e^" << x[i];
    }
  }
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
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    for (const std::vector<double>& y : {exponentials<float>(x), exponentials<Bf16>(x)}) {
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0, 1e-44) << level << " e^" << x[i];
      EXPECT_TRUE(std::isnan(y[3])) << level;
    }
  }
}

/// Where e^(−2u) overflows or vanishes, gelu is x or 0 and its slope 1 or 0.
template <class T>
void saturates_in_gelu() {
  std::vector<T> x, one(10, T(1)), y(10), slope(10);
  for (const float far : {50.0F, 1e4F, 1e13F, 1e18F, 1e30F}) {
    x.push_back(T(-far));
    x.push_back(T(far));
  }
  const auto view = [](std::vector<T>& v) {
    return View{v.data(), dtype_of<T>, {static_cast<int64_t>(v.size())}};
  };
  const auto number = [](T value) {
    return static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(value));
  };
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    CpuDevice device(1);
    device.execute(Gelu{.x = view(x), .y = view(y)});
    device.execute(GeluBackward{.x = view(x), .dy = view(one), .dx = view(slope)});
    device.synchronize();
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(number(y[i]), i % 2 == 0 ? 0 : number(x[i])) << level << " " << number(x[i]);
      EXPECT_EQ(number(slope[i]), i % 2) << level << " " << number(x[i]);
    }
  }
}
TEST(Exponential, SaturatesInGelu) {
  saturates_in_gelu<float>();
  saturates_in_gelu<Bf16>();
  saturates_in_gelu<double>();
}

/// The same of both gates of a gated unit, on the other side of which is 1.
template <class T>
void saturates_in_gates() {
  constexpr std::array far{50.0F, 1e4F, 1e13F, 1e18F, 1e30F};
  std::vector<T> x, one(far.size() * 2, T(1)), y(one.size()), dx(2 * one.size());
  for (const float size : far)
    for (const float sign : {-1.0F, 1.0F}) {
      x.push_back(T(sign * size));
      x.push_back(T(1));
    }
  const auto rows = static_cast<int64_t>(one.size());
  const auto view = [rows](std::vector<T>& v) {
    return View{v.data(), dtype_of<T>, {rows, static_cast<int64_t>(v.size()) / rows}};
  };
  const auto number = [](T value) {
    return static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(value));
  };
  for (const std::string& level : cpu_levels())
    for (const Gate gate : {Gate::silu, Gate::gelu}) {
      const CpuLevel scope(level);
      CpuDevice device(1);
      device.execute(GatedUnit{.x = view(x), .y = view(y), .gate = gate});
      device.execute(
          GatedUnitBackward{.x = view(x), .dy = view(one), .dx = view(dx), .gate = gate});
      device.synchronize();
      for (size_t i = 0; i < y.size(); ++i) {
        const double value = i % 2 == 0 ? 0 : number(x[2 * i]);
        EXPECT_NEAR(number(y[i]), value, 1e-19) << level << " " << number(x[2 * i]);
        EXPECT_NEAR(number(dx[2 * i]), i % 2, 1e-19) << level << " " << number(x[2 * i]);
        EXPECT_NEAR(number(dx[2 * i + 1]), value, 1e-19) << level << " " << number(x[2 * i]);
      }
    }
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
  for (const float far : {100.0F, 1e30F, std::numeric_limits<float>::infinity()}) x.push_back(far);
  y.resize(x.size());
  const auto size = static_cast<int64_t>(x.size());
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    CpuDevice device(1);
    device.execute(
        SoftCap{.x = {x.data(), DType::f32, {size}}, .y = {y.data(), DType::f32, {size}}});
    device.synchronize();
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::tanh(static_cast<double>(x[i]));
      const double error = expected == 0 ? 0 : 4 * unit(std::abs(expected), 23);
      ASSERT_NEAR(static_cast<double>(y[i]), expected, error) << level << " tanh " << x[i];
    }
  }
}

/// The largest element's exponent is exactly 0, however large the element.
TEST(Exponential, OfTheLargestIsOneInSoftmax) {
  for (const float largest : {-3e38F, -12345.678F, 54321.9F, 3e38F}) {
    for (const float scale : {0.1F, -0.1F}) {
      std::vector<float> x(40, scale > 0 ? -3.4e38F : 3.4e38F), p(40);
      x[7] = largest;
      x[21] = largest;
      for (const std::string& level : cpu_levels()) {
        const CpuLevel scope(level);
        CpuDevice device(1);
        device.execute(Softmax{.x = {x.data(), DType::f32, {1, 1, 40}},
                               .p = {p.data(), DType::f32, {1, 1, 40}},
                               .scale = scale,
                               .dropout = {}});
        device.synchronize();
        for (size_t i = 0; i < p.size(); ++i) {
          EXPECT_EQ(p[i], i == 7 || i == 21 ? 0.5F : 0) << level << " " << largest << " " << i;
        }
      }
    }
  }
}

/// Masked out columns add nothing, wherever they are.
TEST(Exponential, OfMinusInfinityAddsNothingToCrossEntropy) {
  std::vector<float> logits(9000, -std::numeric_limits<float>::infinity());
  logits[8999] = 3;
  int32_t label = 8999;
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    CpuDevice device(1);
    for (const int64_t cols : {int64_t{9000}, int64_t{5000}}) {
      float statistics[3] = {};
      device.execute(CrossEntropyStatistics{.logits = {logits.data(), DType::f32, {1, cols}},
                                            .labels = {&label, DType::i32, {1}},
                                            .statistics = {statistics, DType::f32, {1, 3}}});
      device.synchronize();
      EXPECT_EQ(statistics[1], cols == 9000 ? 1 : 0) << level;
    }
  }
}

}  // namespace
}  // namespace frugal::kernels
