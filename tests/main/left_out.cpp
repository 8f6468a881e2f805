#include "tests/main/left_out.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace frugal::testing {
namespace {

std::vector<LeftOut>& all() {
  static std::vector<LeftOut> left_out;
  return left_out;
}

std::vector<std::string> names_of_tests() {
  std::vector<std::string> names;
  const auto& program = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const auto& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      names.push_back(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
  }
  return names;
}

/// What this program was built with: FRUGAL_SANITIZE of CMake.
bool under(Sanitizer sanitizer) {
  constexpr std::string_view built_with = FRUGAL_SANITIZE;
  switch (sanitizer) {
    case Sanitizer::any:
      return !built_with.empty();
    case Sanitizer::address:
      return built_with.find("address") != built_with.npos;
    case Sanitizer::thread:
      return built_with.find("thread") != built_with.npos;
  }
  return false;
}

TEST(LeftOut, AreTestsThatExist) {
  const std::vector<std::string> names = names_of_tests();
  for (const LeftOut& tests : all())
    EXPECT_TRUE(std::any_of(
        names.begin(), names.end(),
        [&](const std::string& name) { return fnmatch(tests.names, name.c_str(), 0) == 0; }))
        << "no test has a name such as " << tests.names << " (" << tests.reason << ")";
}

}  // namespace

bool leave_out(const LeftOut& tests) {
  all().push_back(tests);
  return true;
}

int run_tests(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string filter;
  for (const LeftOut& tests : all())
    if (under(tests.sanitizer)) filter += (filter.empty() ? "-" : ":") + std::string(tests.names);
  if (GTEST_FLAG_GET(filter) == "*" && !filter.empty()) GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}

}  // namespace frugal::testing
