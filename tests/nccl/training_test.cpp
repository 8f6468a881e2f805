// Small models on several GPUs, divided in every way, beside the same on the CPU.
#include "tests/cuda/losses.h"
#include "tests/main/left_out.h"
#include "tests/nccl/divisions.h"
#include "tests/nccl/setting.h"

namespace frugal::engine {
namespace {

class TrainingOnSeveralGpus : public ::testing::TestWithParam<Variant> {};

TEST_P(TrainingOnSeveralGpus, LearnsWhatTheCpuLearns) {
  RunConfig run = tiny_gpt();
  run.type = DType::f64;  // so that little but the order of sums can differ
  GetParam().choose(run);
  if (run.ranks() > testing::most_ranks()) GTEST_SKIP() << "of " << run.ranks() << " ranks";
  constexpr int64_t steps = 5;  // the fifth is of the first's batch
  expect_losses_of_the_cpu(run, steps);
}

FRUGAL_LEFT_OUT(any, "Small/TrainingOnSeveralGpus.*",
                "minutes, and kernels in fibers, which the thread sanitizer does not know");
INSTANTIATE_TEST_SUITE_P(Small, TrainingOnSeveralGpus, ::testing::ValuesIn(divisions()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal::engine
