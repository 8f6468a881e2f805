#include "harness/measure/runs/lone_stages.h"

#include <gmock/gmock.h>

#include "harness/measure/runs/training.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;

/// A pipeline of four stages, of which three are distinct.
RunConfig pipeline() {
  RunConfig config = testing::tiny();
  config.model.layers = 8;
  config.pipeline_parallel = 4;
  config.tensor_parallel = 2;
  config.microbatches = 4;
  return config;
}

std::vector<TimeWindow> trained(Record& record, const Target& target, int64_t steps) {
  const Training training{.train = {.optimizer = {}, .steps = steps}};
  record.config = pipeline();
  return train({training, record.config}, target, record, [](int64_t, const std::string&) {});
}

TEST(LoneStagesRun, SaysWhenEachStagesTimedStepsRan) {
  const auto lone = make_target({.on = "cpu", .threads = 1, .lone_rank = "h200-hgx"});
  for (const int64_t steps : {1, 3}) {
    Record record;
    const double begin = steady_seconds();
    const std::vector<TimeWindow> windows = trained(record, *lone, steps);
    ASSERT_EQ(windows.size(), 3U);
    double last = begin;
    for (const TimeWindow& window : windows) {
      EXPECT_GT(window.begin, last);
      EXPECT_GT(window.end, window.begin);
      last = window.end;
    }
    EXPECT_LE(last, steady_seconds());
    EXPECT_EQ(record.samples(metric::step_time).size(), steps == 1 ? 1U : 2U);
  }
}

TEST(LoneStagesRun, OfAllRanksThereIsOneTime) {
  const auto whole = make_target({.on = "virtual:h200-hgx"});
  Record record;
  EXPECT_EQ(trained(record, *whole, 2).size(), 1U);
}

/// A first step that is not warm does not count, unless others were made with it.
TEST(TimedSteps, BeginBehindAFirstStepByItself) {
  TimedSteps cold(false), warm(true), at_once(false);
  const double begin = warm.window().begin;
  cold.took(1);
  warm.took(1);
  at_once.took(5);
  EXPECT_EQ(cold.window().begin, cold.window().end);
  EXPECT_EQ(warm.window().begin, begin);
  EXPECT_LT(at_once.window().begin, at_once.window().end);
  const double counted = cold.window().begin;
  cold.took(1);
  EXPECT_EQ(cold.window().begin, counted);
}

/// On real memory what the stages of all ranks hold, and as many FLOPs.
TEST(LoneStagesRun, HasTheMemoryOfStepsOfAllRanks) {
  Record lone, whole;
  lone.config = whole.config = pipeline();
  observe_step_memory(*make_target({.on = "cpu", .threads = 1, .lone_rank = "h200-hgx"}), lone);
  observe_step_memory(*make_target({.on = "cpu", .threads = 1}), whole);
  EXPECT_THAT(lone.lone_stages.value().stages, ElementsAre(0, 1, 3));
  EXPECT_FALSE(whole.lone_stages);
  ASSERT_EQ(whole.memory->stages.size(), 4U);
  for (size_t i = 0; i < 3; ++i) {
    const auto stage = static_cast<size_t>(lone.lone_stages->stages[i]);
    EXPECT_EQ(lone.memory->stages.at(i).peak, whole.memory->stages[stage].peak);
    EXPECT_EQ(lone.memory->stages[i].peak_per_kind, whole.memory->stages[stage].peak_per_kind);
    EXPECT_EQ(lone.memory->stages[i].at_peak, whole.memory->stages[stage].at_peak);
  }
  EXPECT_EQ(lone.memory->peak_total, whole.memory->peak_total);
  EXPECT_DOUBLE_EQ(lone.flops->hardware, whole.flops->hardware);
}

}  // namespace
}  // namespace frugal::harness
