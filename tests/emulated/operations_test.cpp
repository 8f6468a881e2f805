// Every row by the CUDA kernels, executed on the processor: against float64, in place, and with any
// order of threads and blocks.
#include "tests/emulated/device.h"
#include "tests/main/left_out.h"
#include "tests/support/device_rows.h"

namespace frugal::kernels::table {
namespace {

class Emulated : public DeviceRows {
 protected:
  const std::unique_ptr<Device> device_ = make_emulated_device(3, test_seed());
};

/// Kernels launched first in a process of their own: what a launch has asked for is there
/// for later ones.
class EmulatedEdges : public Emulated {};

TEST_P(EmulatedEdges, AgreeWithFloat64) {
  everywhere([&](DType type) { return edge_settings(row_, type); },
             [&](const Case& c, const Values& before) { expect_float64(*device_, c, before); });
}

INSTANTIATE_TEST_SUITE_P(Rows, EmulatedEdges, ::testing::ValuesIn(edge_rows()), test_name);

TEST_P(Emulated, AgreesWithFloat64) {
  everywhere([&](const Case& c, const Values& before) { expect_float64(*device_, c, before); });
}

TEST_P(Emulated, IsTheSameInPlace) {
  everywhere(
      [&](const Case& c, const Values& before) { expect_same_in_place(*device_, c, before); });
}

TEST_P(Emulated, MasksAreTheCpusOwn) {
  everywhere([&](const Case& c, const Values& before) { expect_cpu_masks(*device_, c, before); });
}

/// Differences would mean that a barrier is missing.
TEST_P(Emulated, HasTheSameBitsInAnyOrderOfThreads) {
  everywhere([](const Case& c, const Values& before) {
    const Memory first = run(*make_emulated_device(3, 1), c, before);
    EXPECT_TRUE(first == run(*make_emulated_device(3, test_seed()), c, before));
  });
}

FRUGAL_LEFT_OUT(address, "Rows/Emulated.MasksAreTheCpusOwn/*",
                "kernels that AgreesWithFloat64 has run");
FRUGAL_LEFT_OUT(address, "Rows/Emulated.HasTheSameBits*",
                "kernels that AgreesWithFloat64 has run, in other orders");
INSTANTIATE_TEST_SUITE_P(Rows, Emulated, ::testing::ValuesIn(kernel_rows()), test_name);

}  // namespace
}  // namespace frugal::kernels::table
