// Cases on a GPU that is lost to the process: what is recorded, and what runs afterwards.
#include "harness/measure/runner.h"

#include <gmock/gmock.h>

#include "kernels/cuda/gpus.h"
#include "tests/emulator/gpu.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LostGpuTest : public ::testing::Test {
 protected:
  ~LostGpuTest() override { emulator::fail_after(0); }
  Case on_gpu(const std::string& id, const Workload& observed) const {
    return {.id = id, .config = testing::tiny(), .workload = observed, .on = "cuda"};
  }
  /// All records that are in the file after running these cases, and what ended that.
  std::string run(const std::vector<Case>& cases) {
    RecordFile file(folder_ / "");
    Progress progress(cases.size());
    Runner runner(file, progress,
                  {.timing = {.warm_up = 1, .samples = 10, .budget = 0}, .command = "frugal test"});
    std::string why;
    try {
      runner.run("paper/table", cases);
    } catch (const GpuLost& lost) {
      why = lost.what();
    }
    records_ = file.records();
    return why;
  }
  std::vector<std::string> statuses() const {
    std::vector<std::string> all;
    for (const Record& r : records_)
      all.push_back(r.case_id + " " + std::string(name_of(r.status)));
    return all;
  }

  testing::Folder folder_;
  std::vector<Record> records_;
};

constexpr const char* lost = "GPU 0 is lost to this process: an illegal memory access.*";

TEST_F(LostGpuTest, EndsTheRunAndTheSameCommandRunsTheRest) {
  constexpr workload::ModuleMemory memory;
  const std::vector<Case> cases = {on_gpu("a", memory), on_gpu("b", memory), on_gpu("c", memory)};
  EXPECT_EQ(run({cases[0]}), "");
  EXPECT_EQ(why_gpu_lost(), "");
  emulator::fail_after(20);
  EXPECT_THAT(run(cases), MatchesRegex(lost));
  EXPECT_EQ(statuses(), (std::vector<std::string>{"a ok", "b failed"}));
  EXPECT_THAT(records_.back().reason, HasSubstr("an illegal memory access was encountered"));
  EXPECT_THAT(records_.back().reason,
              AnyOf(HasSubstr(" or an operation before it"), HasSubstr(", issued after ")));
  EXPECT_THAT(why_gpu_lost(), MatchesRegex(lost));
  emulator::fail_after(0);  // another process
  EXPECT_EQ(run(cases), "");
  EXPECT_EQ(statuses(), (std::vector<std::string>{"a ok", "b failed", "c ok"}));
}

/// Cases that are timed with it have no rounds any more; they are timed again, without it.
TEST_F(LostGpuTest, OthersAreTimedWithoutTheOneThatLostIt) {
  constexpr workload::ModuleTime time;
  const std::vector<Case> cases = {on_gpu("a", time), on_gpu("b", time), on_gpu("c", time)};
  EXPECT_EQ(run({on_gpu("first", workload::ModuleMemory{})}), "");  // chooses algorithms
  emulator::fail_after(300);
  EXPECT_THAT(run(cases), MatchesRegex(lost));
  std::vector<std::string> left;
  for (const Record& r : records_) {
    if (r.case_id == "first") continue;
    EXPECT_TRUE(r.metrics.empty());
    if (r.status == Status::failed) continue;
    EXPECT_EQ(r.status, Status::interrupted);
    EXPECT_THAT(r.reason, HasSubstr("another case lost the GPU"));
    left.push_back(r.case_id);
  }
  EXPECT_EQ(records_.size(), 4);
  EXPECT_EQ(left.size(), 2);
  emulator::fail_after(300);
  EXPECT_THAT(run(cases), MatchesRegex(lost));
  ASSERT_EQ(records_.size(), 6);
  for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(records_[4 + i].case_id, left[i]);
}

/// An error of a call leaves the GPU as it was.
TEST_F(LostGpuTest, WhatMerelyFailsIsNoLoss) {
  EXPECT_THROW(make_cuda_device(7), std::exception);
  const auto device = make_cuda_device();
  EXPECT_THROW(device->allocate(int64_t{1} << 50), std::exception);
  EXPECT_EQ(why_gpu_lost(), "");
}

/// Runs in a process of its own, in which nothing is computed.
TEST(MeasuredPeakDeathTest, OfAGpuIsMeasuredOnceInAProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto measure = [] {
    emulator::gpu().computes = false;
    RunConfig config = testing::tiny();
    const double first = *PeakRates(*make_target({.on = "cuda"})).measured(config);
    const int64_t products = emulator::products();
    const double second = *PeakRates(*make_target({.on = "cuda"})).measured(config);
    config.type = DType::bf16;
    const bool once = first == second && products == emulator::products();
    PeakRates(*make_target({.on = "cuda"})).measured(config);
    std::_Exit(once && emulator::products() > products ? 0 : 1);
  };
  EXPECT_EXIT(measure(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace frugal::harness
