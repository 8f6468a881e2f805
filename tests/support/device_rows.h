#pragma once
#include "tests/support/run_case.h"

/// Tests of the operation table that every device with kernels of its own passes.
namespace frugal::kernels::table {

/// Settings around packs of eight and warps, more than a block's threads have at a time, and pairs
/// drawn anew in every run; only a few where the environment variable FRUGAL_TEST_SMALL is set.
std::vector<Setting> kernel_settings(DType type);

/// A few rows of the columns at which a GPU's limits are reached.
std::vector<Setting> edge_settings(const Row& row, DType type);

/// Rounding of a product that is added to bf16 numbers (Setting::rounds_before_adding).
enum class Adding : uint8_t { exact, rounds_before };

/// Calls test(case, values) for f32, bf16 and f64 and all settings that are not too large; stops
/// after the first failure.
class DeviceRows : public ::testing::TestWithParam<std::string> {
 protected:
  using Test = std::function<void(const Case&, const Values&)>;
  explicit DeviceRows(Adding adding = Adding::rounds_before) : adding_(adding) {}

  void everywhere(const Test& test) const { everywhere(kernel_settings, test); }
  void everywhere(const std::function<std::vector<Setting>(DType)>& settings,
                  const Test& test) const;

  const Row& row_ = row(GetParam());

 private:
  const Adding adding_;
};

/// Expects agreement with float64, on and off the boundary of 64 bytes.
void expect_float64(Device& device, const Case& test_case, const Values& before);
/// Outputs in the memory of the inputs that they may share.
void expect_same_in_place(Device& device, const Case& test_case, const Values& before);
/// Masks that are written, bit for bit.
void expect_cpu_masks(Device& device, const Case& test_case, const Values& before);

/// All rows but fused attention's, which a library computes on a GPU: for bf16 and heads of certain
/// sizes only (tests/cuda/attention_test.cpp).
std::vector<std::string> kernel_rows();
/// Rows that have edges.
std::vector<std::string> edge_rows();

}  // namespace frugal::kernels::table
