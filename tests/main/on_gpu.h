#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/gpus.h"

namespace frugal::testing {

/// After an error that leaves the process without its GPU, other tests would fail for nothing.
class StopWithoutGpu final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    const std::string why = kernels::why_gpu_lost();
    if (why.empty()) return;
    fmt::print("{}; the tests after this one are left out\n", why);
    GTEST_FLAG_SET(fail_fast, true);
  }
};

/// Runs the tests of a program whose tests need a GPU, from its main function, once GoogleTest has
/// its arguments. `reason` says why there is none; empty: there is one. Without one the tests are
/// skipped, with the status that CTest takes for that.
inline int run_on_gpu(const std::string& reason) {
  if (!reason.empty() && !GTEST_FLAG_GET(list_tests)) {
    fmt::print("skipped: {}\n", reason);
    return 77;
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new StopWithoutGpu);
  return RUN_ALL_TESTS();
}

}  // namespace frugal::testing
