#include "tests/support/run_case.h"

#include <fmt/format.h>

#include <algorithm>

namespace frugal::kernels::table {

Memory run(Device& device, const Case& test_case, const Values& before, const Layout& layout) {
  AfterRun after = run_guarded_case(device, test_case, before, layout);
  for (const std::string& place : after.overwritten) ADD_FAILURE() << "overwritten: " << place;
  return std::move(after.memory);
}

::testing::AssertionResult agrees(const Case& test_case, const Expected& expected,
                                  const Values& actual) {
  const std::optional<std::string> difference = disagreement(test_case, expected, actual);
  if (difference) return ::testing::AssertionFailure() << *difference;
  return ::testing::AssertionSuccess();
}

std::string describe(const Row& row, const Setting& setting) {
  return fmt::format("{} {} {} x {}, FRUGAL_TEST_SEED={}", row.name, name_of(setting.type),
                     setting.rows, setting.cols, test_seed());
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace frugal::kernels::table
