// Philox, dropout and normal numbers: known answers, sharding, rates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/philox.h"
#include "kernels/table/oracle.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/run_case.h"

namespace frugal::kernels::table {
namespace {

using Words = std::array<uint32_t, 4>;

/// Vectors of the file kat_vectors of the authors' library Random123.
TEST(Philox, HasTheKnownAnswers) {
  struct Answer {
    Words counter;
    std::array<uint32_t, 2> key;
    Words words;
  };
  constexpr uint32_t ones = 0xffffffff;
  const Answer answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{ones, ones, ones, ones}, {ones, ones}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Answer& answer : answers) {
    EXPECT_EQ(philox(answer.counter, answer.key), answer.words);
    EXPECT_EQ(Philox::generate(answer.counter, answer.key[0], answer.key[1]), answer.words);
  }
}

TEST(Philox, TakesCounterAndKeyFromTheStream) {
  const RandomStream stream = {0x0123456789abcdef, 77, 5};
  const int64_t group = (int64_t{9} << 32) + 4;
  EXPECT_EQ(words_of(stream, group), philox({4, 9, 77, 5}, {0x89abcdef, 0x01234567}));
  EXPECT_EQ(Philox::generate(stream, static_cast<uint64_t>(group)), words_of(stream, group));
}

/// The mask that a device makes for [rows, cols] at an index.
std::vector<double> mask_of(Device& device, const Dropout& dropout, const Shape& shape) {
  Case c;
  c.operands = {{"x", DType::f32, shape},
                {"y", DType::f32, shape, Role::output},
                {"mask", DType::u8, shape, Role::output}};
  c.bind = [&](const Views& v) {
    return BiasDropoutAdd{.x = v["x"],
                          .bias = {},
                          .residual = {},
                          .y = v["y"],
                          .mask = v["mask"],
                          .dropout = dropout};
  };
  return values_of(c, run(device, c, random_values(c, test_seed()))).at("mask");
}

class DropoutMask : public ::testing::Test {
 protected:
  const ::testing::ScopedTrace seed_{__FILE__, __LINE__, test_seed()};
  std::mt19937_64 random_{test_seed()};
  Dropout dropout_ = {0.1F, {random_(), 7, 3}, {}};
};

/// Rows, columns and both split over shards: every shard has its part of the serial mask.
TEST_F(DropoutMask, OfAShardIsTheSerialMasksPart) {
  constexpr int64_t rows = 12, cols = 90;
  at_each_level([&](CpuDevice& device) {
    const std::vector<double> serial = mask_of(device, dropout_, {rows, cols});
    for (const auto& [row_parts, col_parts] : {std::pair{4, 1}, {1, 6}, {3, 9}}) {
      const int64_t height = rows / row_parts, width = cols / col_parts;
      for (int64_t r = 0; r < row_parts; ++r) {
        for (int64_t c = 0; c < col_parts; ++c) {
          Dropout shard = dropout_;
          shard.index = {r * height * cols + c * width, width, cols};
          const std::vector<double> mask = mask_of(device, shard, {height, width});
          for (int64_t i = 0; i < height * width; ++i) {
            const int64_t row = r * height + i / width, col = c * width + i % width;
            ASSERT_EQ(at(mask, i), at(serial, row * cols + col)) << i;
          }
        }
      }
    }
  });
}

TEST_F(DropoutMask, DropsItsShareWithinBinomialBounds) {
  const Shape shape = {1000, 1001};
  const auto n = static_cast<double>(shape.size());
  CpuDevice device(1);
  for (const float probability : {0.01F, 0.1F, 0.5F, 0.9F}) {
    dropout_.probability = probability;
    const std::vector<double> mask = mask_of(device, dropout_, shape);
    const auto dropped = static_cast<double>(std::count(mask.begin(), mask.end(), 0.0));
    const auto p = static_cast<double>(probability);
    EXPECT_NEAR(dropped, n * p, 6 * std::sqrt(n * p * (1 - p)));  // one failure in 5e8
  }
}

/// The share that is kept, in units of the random bits, times the scale is 1.
TEST_F(DropoutMask, KeepsTheExpectation) {
  for (const float probability : {0.0F, 0x1p-17F, 0.1F, 0.3F, 0.5F, 0.9F, 1 - 0x1.02p-17F}) {
    ASSERT_TRUE(Dropout::possible(probability));
    dropout_.probability = probability;
    const double kept = 1 - dropout_.threshold() * 0x1p-16;
    EXPECT_NEAR(kept, 1 - probability, 0x1p-17);
    EXPECT_DOUBLE_EQ(kept * dropout_.keep_scale(), 1);
  }
}

TEST_F(DropoutMask, DependsOnSeedSiteAndDraw) {
  CpuDevice device(1);
  const Shape shape = {64, 64};
  const std::vector<double> mask = mask_of(device, dropout_, shape);
  EXPECT_EQ(mask, mask_of(device, dropout_, shape));
  for (const RandomStream stream :
       {RandomStream{dropout_.stream.seed ^ 1, 7, 3},
        RandomStream{dropout_.stream.seed ^ (uint64_t{1} << 63), 7, 3},
        RandomStream{dropout_.stream.seed, 8, 3}, RandomStream{dropout_.stream.seed, 7, 4}}) {
    EXPECT_NE(mask, mask_of(device, {dropout_.probability, stream, {}}, shape));
  }
}

TEST(RandomNormal, HasTheMomentsOfTheNormalDistribution) {
  const Shape shape = {1000, 1000};
  const auto n = static_cast<double>(shape.size());
  Case c;
  c.operands = {{"x", DType::f64, shape, Role::output}};
  c.bind = [](const Views& v) {
    return frugal::kernels::RandomNormal{
        .x = v["x"], .deviation = 1, .stream = {test_seed(), 1, 0}, .index = {}};
  };
  CpuDevice device(1);
  const Values values = values_of(c, run(device, c, random_values(c, 0)));
  double moments[5] = {};
  for (const double x : values.at("x")) {
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / n;
  }
  // Deviations of the sample moments: √(1, 2, 15, 96) / √n.
  EXPECT_NEAR(moments[1], 0, 6 / std::sqrt(n)) << test_seed();
  EXPECT_NEAR(moments[2], 1, 6 * std::sqrt(2 / n)) << test_seed();
  EXPECT_NEAR(moments[3], 0, 6 * std::sqrt(15 / n)) << test_seed();
  EXPECT_NEAR(moments[4], 3, 6 * std::sqrt(96 / n)) << test_seed();
}

}  // namespace
}  // namespace frugal::kernels::table
