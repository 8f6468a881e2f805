#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cuda/gpus.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = frugal::why_no_gpu();
  if (!reason.empty() && !::testing::GTEST_FLAG(list_tests)) {
    fmt::print("skipped: {}\n", reason);
    return 77;  // what CTest takes for skipped
  }
  return RUN_ALL_TESTS();
}
