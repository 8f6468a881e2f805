#pragma once
#include <gtest/gtest.h>

#include <cstddef>

#include "kernels/device.h"
#include "kernels/table/operation_table.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels::table {

/// How operands are laid out for a run.
struct Layout {
  bool share_aliases = false;  ///< outputs in the memory of the inputs that they may share
  int64_t shift = 0;           ///< elements by which every operand is off the 64-byte boundary
};

/// Bytes of every operand after a run.
using Memory = std::map<std::string, std::vector<std::byte>>;

/// Puts the values into memory of the device, outputs poisoned with NaN and every operand between
/// guard bytes, executes the case and reads all back. Fails the test when a guard was overwritten
/// or an input changed.
Memory run(Device& device, const Case& test_case, const Values& before, const Layout& layout = {});

Values values_of(const Case& test_case, const Memory& memory);

/// Whether every output is as near the expected values as the case demands, and everything else
/// is unchanged.
::testing::AssertionResult agrees(const Case& test_case, const Expected& expected,
                                  const Values& actual);

/// The seed that reproduces a failure, for SCOPED_TRACE.
std::string describe(const Row& row, const Setting& setting);

/// Names of rows as GoogleTest allows them.
std::string test_name(const ::testing::TestParamInfo<std::string>& info);

}  // namespace frugal::kernels::table
