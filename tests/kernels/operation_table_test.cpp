// Rows of the table: names, gradients, and costs as computed by hand. The linker asks for those of
// every operation.
#include "kernels/table/operation_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace frugal::kernels::table {
namespace {

constexpr Setting by_hand = {DType::bf16, 6, 4, 1};

std::string operation_of(const Row& row) { return row.name.substr(0, row.name.find('/')); }

TEST(OperationTable, RowsAreNamedAfterTheirOperation) {
  std::set<std::string> names;
  for (const Row& row : rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " appears twice";
    EXPECT_EQ(operation_of(row), name_of(unbacked(row.build(by_hand))));
  }
}

TEST(OperationTable, EveryBackwardOperationHasAGradientRow) {
  std::set<std::string> checked;
  for (const Row& row : rows()) {
    if (!row.gradient_of.empty()) checked.insert(operation_of(row));
  }
  for (const Row& row : rows()) {
    const bool backward = operation_of(row).ends_with("-backward");
    EXPECT_TRUE(!backward || checked.contains(operation_of(row))) << row.name;
  }
}

TEST(OperationTable, CostsAreThoseComputedByHand) {
  for (const Row& row : rows()) {
    const Cost cost = cost_of(unbacked(row.build(by_hand)));
    EXPECT_EQ(cost.flops, row.by_hand.flops) << row.name;
    EXPECT_EQ(cost.bytes, row.by_hand.bytes) << row.name;
  }
}

/// 24 elements of 4 bytes. The new weights are written once, wherever they go.
TEST(OperationTable, WeightsWithoutAMasterCopyAreReadAndWritten) {
  constexpr Setting f32 = {DType::f32, 6, 4, 1};
  const auto bytes = [&](const std::string& name) {
    return cost_of(unbacked(row(name).build(f32))).bytes;
  };
  for (const std::string where : {"", "/result"}) {
    EXPECT_EQ(bytes("momentum" + where), 5 * 96) << where;
    EXPECT_EQ(bytes("adam" + where), 7 * 96) << where;
  }
}

TEST(Tolerance, UnitRoundoffIsHalfTheDistanceFromOneToTheNextNumber) {
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    const double u = unit_roundoff(type);
    EXPECT_EQ(round_to(type, 1 + 2 * u), 1 + 2 * u) << name_of(type);  // the next number
    EXPECT_EQ(round_to(type, 1 + u), 1) << name_of(type);              // between, and to even
  }
}

/// A result of 5 whose rounding errors are relative to 10, after three roundings in float32 (of
/// float64 in float64) and one to its type.
TEST(Tolerance, AllowsAnErrorUpToItsBoundAndNoFurther) {
  const std::map<DType, double> bounds = {{DType::f32, 3 * 0x1p-24 * 10 + 0x1p-24 * 5},
                                          {DType::bf16, 3 * 0x1p-24 * 10 + 0x1p-8 * 5},
                                          {DType::f64, 3 * 0x1p-53 * 10 + 0x1p-53 * 5}};
  for (const auto& [type, bound] : bounds) {
    Case c;
    c.operands = {{"y", type, {1}, Role::output}};
    c.roundings = 3;
    Expected wanted(Values{{"y", {0}}});
    wanted.set("y", 0, 5, 10);
    for (const double sign : {-1, 1}) {
      EXPECT_FALSE(disagreement(c, wanted, {{"y", {5 + sign * 0.9 * bound}}})) << name_of(type);
      EXPECT_TRUE(disagreement(c, wanted, {{"y", {5 + sign * 1.1 * bound}}})) << name_of(type);
    }
    c.roundings = 0;  // exact
    EXPECT_TRUE(disagreement(c, wanted, {{"y", {5 + 0.5 * bound}}})) << name_of(type);
  }
}

/// A row is stored once, but for a dropped softmax, which may come from a stored one.
TEST(Tolerance, OfEveryRowIsOneRoundingToItsType) {
  for (const Row& row : rows()) {
    const double roundings = row.build(by_hand).storage_roundings;
    EXPECT_EQ(roundings, row.name.starts_with("softmax") && roundings != 1 ? 2 : 1) << row.name;
  }
}

TEST(Bf16Rounding, IsToTheNearestAndToEvenBetween) {
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8), 1);                     // a tie, to even
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x3p-8), 1 + 0x1p-6);            // a tie, to even
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);  // above the tie
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x3p-8 - 0x1p-40), 1 + 0x1p-7);  // below the tie
  EXPECT_EQ(static_cast<float>(Bf16(1 + 0x1p-8F)), 1);
  EXPECT_EQ(static_cast<float>(Bf16(1 + 0x3p-8F)), 1 + 0x1p-6F);
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(static_cast<float>(Bf16(3.4e38F)), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace frugal::kernels::table
