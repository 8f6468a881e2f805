#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"

namespace {

/// After an error that leaves the process without its GPU, other tests would fail for nothing.
class StopWithoutGpu final : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Failed()) return;
    const std::string why = frugal::kernels::why_gpu_lost();
    if (why.empty()) return;
    fmt::print("{}; the tests after this one are left out\n", why);
    GTEST_FLAG_SET(fail_fast, true);
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = frugal::kernels::why_no_gpu();
  if (!reason.empty() && !::testing::GTEST_FLAG(list_tests)) {
    fmt::print("skipped: {}\n", reason);
    return 77;  // what CTest takes for skipped
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new StopWithoutGpu);
  return RUN_ALL_TESTS();
}
