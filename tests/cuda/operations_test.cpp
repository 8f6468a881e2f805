// Every row of the operation table on a GPU: against float64, in place, twice, and the CPU's masks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"
#include "tests/support/device_rows.h"

namespace frugal::kernels::table {
namespace {

/// Many blocks, rows that fill several warps: sizes at which a GPU's kernels run as in earnest.
/// Only what the float64 reference computes soon.
std::vector<Setting> large(DType type) {
  return {{type, 517, 704, test_seed()}, {type, 64, 1536, 0}};
}

/// All tests share a device, which takes longer to make than most of them, many times so under
/// compute-sanitizer.
class OnTheGpu : public DeviceRows {
 protected:
  static void SetUpTestSuite() { shared_ = make_cuda_device(); }
  static void TearDownTestSuite() { shared_.reset(); }
  static inline std::unique_ptr<Device> shared_;
  Device* const device_ = shared_.get();
};

/// Runs before other launches of the same kernels: what one has asked for is there for later ones.
class EdgesOnTheGpu : public OnTheGpu {};

TEST_P(EdgesOnTheGpu, AgreeWithFloat64) {
  everywhere([&](DType type) { return edge_settings(row_, type); },
             [&](const Case& c, const Values& before) { expect_float64(*device_, c, before); });
}

INSTANTIATE_TEST_SUITE_P(Rows, EdgesOnTheGpu, ::testing::ValuesIn(edge_rows()), test_name);

TEST_P(OnTheGpu, AgreesWithFloat64) {
  everywhere([&](const Case& c, const Values& before) { expect_float64(*device_, c, before); });
}

TEST_P(OnTheGpu, AgreesWithFloat64WhereItIsLarge) {
  everywhere(large,
             [&](const Case& c, const Values& before) { expect_float64(*device_, c, before); });
}

TEST_P(OnTheGpu, IsTheSameInPlace) {
  everywhere(
      [&](const Case& c, const Values& before) { expect_same_in_place(*device_, c, before); });
}

TEST_P(OnTheGpu, MasksAreTheCpusOwn) {
  everywhere([&](const Case& c, const Values& before) { expect_cpu_masks(*device_, c, before); });
}

/// Widths at which a norm's kernels change how they keep a row, the last before, and models'.
class NormsOnTheGpu : public ::testing::TestWithParam<int64_t> {};

TEST_P(NormsOnTheGpu, AgreeWithFloat64) {
  const auto device = make_cuda_device();
  for (const std::string& name : kernel_rows()) {
    if (name.find("norm") == std::string::npos || name.starts_with("random")) continue;
    for (const DType type : {DType::f32, DType::bf16}) {
      const Setting setting = {type, 2, GetParam(), test_seed()};
      SCOPED_TRACE(describe(row(name), setting));
      const Case test_case = row(name).build(setting);
      expect_float64(*device, test_case, random_values(test_case, test_seed()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, NormsOnTheGpu,
                         ::testing::Values(256, 768, 1600, 2064, 4096, 6144, 8192, 8200, 10240,
                                           12288, 16384, 16392, 20480, 20488),
                         [](const auto& info) { return fmt::format("width_{}", info.param); });

/// Several rows for every team of a norm's backward pass, which copies some while it computes one.
TEST(LargeNormsOnTheGpu, AgreeWithFloat64WhereTeamsWalkOverRows) {
  const auto device = make_cuda_device();
  for (const int64_t cols : {768, 4096, 12288}) {
    const Row& backward = row("layer-norm-backward/residual");
    const Setting setting = {DType::bf16, 5000000 / cols, cols, test_seed()};
    SCOPED_TRACE(describe(backward, setting));
    const Case test_case = backward.build(setting);
    const Values before = random_values(test_case, test_seed());
    expect_float64(*device, test_case, before);
    EXPECT_TRUE(run(*device, test_case, before) == run(*device, test_case, before));
  }
}

/// Sums have one order.
TEST_P(OnTheGpu, HasTheSameBitsTwice) {
  everywhere(large, [&](const Case& c, const Values& before) {
    EXPECT_TRUE(run(*device_, c, before) == run(*device_, c, before));
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, OnTheGpu, ::testing::ValuesIn(kernel_rows()), test_name);

}  // namespace
}  // namespace frugal::kernels::table
