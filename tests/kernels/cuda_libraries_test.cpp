#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "kernels/cuda/gpus.h"

namespace frugal::kernels {
namespace {

std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

/// Loading it takes several times as long as the start of a program without it.
TEST(CudaLibraries, CublasLtIsLoadedByItsFirstCall) {
  using ::testing::HasSubstr;
  EXPECT_THAT(mapped_files(), Not(HasSubstr("libcublasLt")));
  const auto versions = cuda_libraries();
  if (versions.empty()) GTEST_SKIP() << "this build has no CUDA";
  EXPECT_THAT(versions.at("cuBLASLt"), ::testing::MatchesRegex("[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(mapped_files(), HasSubstr("libcublasLt"));
}

}  // namespace
}  // namespace frugal::kernels
