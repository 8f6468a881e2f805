// Kernels that hold a row in registers choose how by its length, and blocks that sum over rows work
// on many: at lengths on both sides of each choice, and more rows than blocks.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/cpu/device.h"
#include "tests/emulated/device.h"
#include "tests/main/left_out.h"
#include "tests/support/run_case.h"

namespace frugal::kernels::table {
namespace {

void expect_agreement(const std::string& name, const Setting& setting) {
  const Row& of_table = row(name);
  SCOPED_TRACE(describe(of_table, setting));
  const Case test_case = of_table.build(setting);
  const Values before = random_values(test_case, test_seed());
  const auto device = make_emulated_device(2, test_seed());
  const Memory after = run(*device, test_case, before);
  EXPECT_TRUE(agrees(test_case, expected(test_case, before), values_of(test_case, after)));
  EXPECT_EQ(after, run(*make_emulated_device(2, test_seed() + 1), test_case, before));
}

class HeldRows : public ::testing::TestWithParam<std::string> {};

/// Warps that have a row each, and several teams of a block.
TEST_P(HeldRows, AgreeWithFloat64WhenThereAreManyOfThem) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t cols : {256, 264, 1032, 2064})
      expect_agreement(GetParam(), {type, 21, cols, test_seed()});
}

/// Blocks that have one, and rows that are too long to be held.
TEST_P(HeldRows, AgreeWithFloat64WhenTheyAreLong) {
  for (const int64_t cols : {8192, 8200, 16384, 16392, 28680, 32776})
    expect_agreement(GetParam(), {DType::bf16, 5, cols, test_seed()});
  for (const int64_t cols : {8200, 14344, 16392})
    expect_agreement(GetParam(), {DType::f32, 5, cols, test_seed()});
}

FRUGAL_LEFT_OUT(address, "Rows/HeldRows.*", "minutes for longer rows than the operations' own");
INSTANTIATE_TEST_SUITE_P(Rows, HeldRows,
                         ::testing::Values("layer-norm", "layer-norm-backward/residual", "rms-norm",
                                           "rms-norm-backward", "softmax", "softmax-backward",
                                           "cross-entropy-statistics", "cross-entropy",
                                           "cross-entropy/narrow", "cross-entropy/at-once"),
                         test_name);

class NormGradients : public ::testing::TestWithParam<std::string> {};

/// Teams of one warp and of several, with more rows each than are on their way, in blocks of which
/// two, four or one are on a multiprocessor; one row, and fewer rows than teams.
TEST_P(NormGradients, AgreeWithFloat64WhereTeamsWalkOverRows) {
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{{300, 256},
                                                                           {130, 768},
                                                                           {70, 1600},
                                                                           {35, 4096},
                                                                           {19, 6144},
                                                                           {9, 12288},
                                                                           {1, 768},
                                                                           {3, 1600}})
    expect_agreement(GetParam(), {DType::bf16, rows, cols, test_seed()});
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{300, 64}, {60, 768}, {9, 8192}, {1, 4096}})
    expect_agreement(GetParam(), {DType::f32, rows, cols, test_seed()});
}

/// Rows that are not whole packs, and rows that two, one or no block holds of.
TEST_P(NormGradients, AgreeWithFloat64WhereRowsAreNotHeld) {
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
           {21, 771}, {9, 1601}, {1, 7}, {7, 20480}, {5, 20488}})
    expect_agreement(GetParam(), {DType::bf16, rows, cols, test_seed()});
}

FRUGAL_LEFT_OUT(address, "Rows/NormGradients.*",
                "minutes for longer rows than the operations' own");
INSTANTIATE_TEST_SUITE_P(Rows, NormGradients,
                         ::testing::Values("layer-norm-backward", "layer-norm-backward/residual",
                                           "layer-norm-backward/narrow", "rms-norm-backward/offset",
                                           "rms-norm-backward/residual"),
                         test_name);

/// More heads than a block has, several positions of a block, and heads that are wider than it: by
/// the CPU's own in float64.
TEST(RotaryBlocks, AreTheCpusOwn) {
  for (const Shape& shape : {Shape{3, 2, 700, 16}, Shape{67, 3, 2, 32}, Shape{2, 1, 3, 4128}}) {
    Case c;
    c.operands = {{"x", DType::f64, shape, Role::updated},
                  {"frequencies", DType::f64, {shape[3] / 2}}};
    c.bind = [](const Views& v) {
      return Rotary{.x = v["x"], .frequencies = v["frequencies"], .first = 1000};
    };
    const Values before = random_values(c, test_seed());
    CpuDevice cpu(1);
    const Values theirs = values_of(c, run(cpu, c, before));
    const Values ours = values_of(c, run(*make_emulated_device(2, test_seed()), c, before));
    for (size_t i = 0; i < theirs.at("x").size(); ++i)
      ASSERT_NEAR(ours.at("x")[i], theirs.at("x")[i], 1e-11) << "at " << i;
  }
}

/// Rows far from 0 on either side, whose exponentials are numbers only below the largest: by the
/// CPU's own, within the rounding of both.
TEST(SoftmaxRows, AreExponentialsBelowTheLargestOfEitherSign) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const float scale : {0.75F, -0.75F}) {
      for (const double middle : {-400.0, 400.0}) {
        Case c;
        c.operands = {{"x", type, {2, 3, 1032}}, {"p", type, {2, 3, 1032}, Role::output}};
        c.bind = [=](const Views& v) {
          return Softmax{.x = v["x"], .p = v["p"], .scale = scale, .dropout = {}};
        };
        Values before = random_values(c, test_seed());
        for (double& x : before.at("x")) x = middle + 4 * std::round(x);  // exact in bf16
        CpuDevice cpu(1);
        const auto theirs = values_of(c, run(cpu, c, before)).at("p");
        const auto ours =
            values_of(c, run(*make_emulated_device(2, test_seed()), c, before)).at("p");
        for (size_t i = 0; i < theirs.size(); ++i)
          ASSERT_NEAR(ours[i], theirs[i], 2 * unit_roundoff(DType::bf16) * theirs[i])
              << "scale " << scale << ", around " << middle << ", at " << i;
      }
    }
  }
}

/// Rows of every length up to the matrix's: with a mask that is stored, and one that is not.
TEST(CausalRows, AgreeWithFloat64InABlock) {
  for (const std::string name : {"softmax/causal-dropout", "softmax-backward/causal-dropout",
                                 "softmax-backward/regenerated"})
    expect_agreement(name, {DType::bf16, 1, 1032, 0});
}

}  // namespace
}  // namespace frugal::kernels::table
