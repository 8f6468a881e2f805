// Every row of the operation table on a GPU: against float64, in place, twice, and the CPU's masks.
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"
#include "tests/support/device_rows.h"

namespace frugal::table {
namespace {

/// Many blocks, rows that fill several warps: sizes at which a GPU's kernels run as in earnest.
/// Only what the float64 reference computes soon.
std::vector<Setting> large(DType type) {
  return {{type, 517, 704, test_seed()}, {type, 64, 1536, 0}};
}

class OnTheGpu : public DeviceRows {
 protected:
  const std::unique_ptr<Device> device_ = make_cuda_device();
};

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

/// Sums have one order.
TEST_P(OnTheGpu, HasTheSameBitsTwice) {
  everywhere(large, [&](const Case& c, const Values& before) {
    EXPECT_TRUE(run(*device_, c, before) == run(*device_, c, before));
  });
}

INSTANTIATE_TEST_SUITE_P(Rows, OnTheGpu, ::testing::ValuesIn(kernel_rows()), test_name);

}  // namespace
}  // namespace frugal::table
