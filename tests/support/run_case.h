#pragma once
#include <gtest/gtest.h>

#include "kernels/table/operation_table.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels::table {

/// run_guarded_case(); fails the test when a guard was overwritten.
Memory run(Device& device, const Case& test_case, const Values& before, const Layout& layout = {});

/// Succeeds if there is no disagreement().
::testing::AssertionResult agrees(const Case& test_case, const Expected& expected,
                                  const Values& actual);

/// The seed that reproduces a failure, for SCOPED_TRACE.
std::string describe(const Row& row, const Setting& setting);

/// Names of rows as GoogleTest allows them.
std::string test_name(const ::testing::TestParamInfo<std::string>& info);

}  // namespace frugal::kernels::table
