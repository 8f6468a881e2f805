#include "harness/measure/needed.h"

#include <gmock/gmock.h>

#include <limits>

#include "harness/measure/runs/fit_search.h"
#include "harness/measure/runs/training.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;

RunConfig small(int64_t micro_batch) {
  RunConfig c;
  c.model = {.name = "m",
             .layers = 4,
             .hidden = 256,
             .heads = 4,
             .sequence = 512,
             .vocabulary = 1024,
             .dropout = 0};
  c.attention = AttentionKind::fused;
  c.micro_batch = micro_batch;
  return c;
}

std::unique_ptr<Target> with_memory(int64_t bytes) {
  Machine machine = find_machine("a100-selene");
  machine.memory_capacity = bytes;
  return make_target({.on = "virtual", .machine = machine});
}

StepTaken taken(const RunConfig& config) {
  const auto target = make_target({.on = "virtual"});
  return take_step(*target->cluster_with(config, std::numeric_limits<int64_t>::max()), config,
                   default_optimizer(config));
}

TrainingRun training_of(const RunConfig& config) {
  TrainingRun run{{}, config};
  run.train.optimizer = default_optimizer(config);
  return run;
}

TEST(Needed, OfATrainingIsWhatItTakesWhereThereIsEnough) {
  RunConfig config = small(2);
  config.pipeline_parallel = 2;
  config.microbatches = 4;
  const StepTaken step = taken(config);
  const auto target = with_memory(step.memory.peak_total - 1);
  const auto needed = needed_by(training_of(config), *target);
  ASSERT_TRUE(needed);
  EXPECT_EQ(needed->memory.peak_total, step.memory.peak_total);
  ASSERT_EQ(needed->memory.stages.size(), 2U);
  EXPECT_EQ(needed->memory.stages[1].at_peak, step.memory.stages[1].at_peak);
  EXPECT_EQ(needed->capacity, step.memory.peak_total - 1);
  EXPECT_EQ(needed->host_capacity, target->machine()->host_memory / 2);
  EXPECT_THAT(in_short(*needed), HasSubstr("needs 1 B more than "));
  const size_t fullest = step.memory.stages[0].peak >= step.memory.stages[1].peak ? 0 : 1;
  EXPECT_THAT(in_words(*needed), HasSubstr("on each rank of stage " + std::to_string(fullest)));
}

/// Memory that is real is what the virtual one counts.
TEST(Needed, OfTheProcessorIsCountedVirtually) {
  const auto target = make_target({.on = "cpu"});
  const RunConfig config = small(1);
  const StepTaken real = take_step(*target->cluster(config), config, default_optimizer(config));
  const auto needed = needed_by(training_of(config), *target);
  ASSERT_TRUE(needed);
  EXPECT_EQ(needed->memory.peak_total, real.memory.peak_total);
  EXPECT_EQ(needed->memory.stages.front().at_peak, real.memory.stages.front().at_peak);
  EXPECT_FALSE(needed->host_capacity);
  EXPECT_THAT(in_words(*needed), HasSubstr("counted on " + needed->on));
}

TEST(Needed, IsInTheReasonOfARecordThatRanOutOfMemoryAlone) {
  Case c;
  c.config = small(1);
  c.workload = workload::ModuleMemory{};
  const auto target = with_memory(1000);
  Record record;
  record.config = c.config;
  add_needed(record, c, *target);
  EXPECT_FALSE(record.needed);
  record.status = Status::oom;
  record.reason = "full";
  add_needed(record, c, *target);
  ASSERT_TRUE(record.needed);
  EXPECT_GT(record.needed->memory.peak_total, 1000);
  EXPECT_THAT(record.reason, HasSubstr("needs "));
  EXPECT_THAT(record.reason, HasSubstr(" of 1000 B on each rank ("));
  EXPECT_THAT(record.reason, HasSubstr("; first without room: full"));
}

TEST(Needed, IsInWhatIsThrown) {
  const auto target = with_memory(1000);
  const TrainingRun run = training_of(small(1));
  EXPECT_THAT(
      [&] {
        with_needed(run, *target, [&] {
          target->cluster(run.config);
          throw OutOfMemory("full", 1, 2, 3);
        });
      },
      ThrowsMessage<OutOfMemory>(HasSubstr("of 1000 B on each rank")));
  EXPECT_THROW(with_needed(run, *target, [] { throw InputError("other"); }), InputError);
}

FitSearch searched(const RunConfig& config, int64_t memory) {
  const auto target = with_memory(memory);
  const TrainingRun run = training_of(config);
  return search_fit(run, *target, needed_by(run, *target).value(), [](int64_t) {});
}

/// Seconds of the fastest of all these changes of whole layers that fit; none of them.
std::optional<double> fastest_by_brute_force(const RunConfig& given, int64_t memory) {
  std::optional<double> fastest;
  for (const int64_t b : {4, 2, 1})
    for (const Recompute recompute : {Recompute::none, Recompute::full})
      for (const int64_t head : {int64_t{1}, RunConfig::by_rule})
        for (const int64_t mlp : {int64_t{1}, RunConfig::by_rule})
          for (const bool offload : {false, true})
            for (const bool optimizer : {false, true}) {
              RunConfig c = given;
              c.micro_batch = b;
              c.microbatches = 4 / b;
              c.recompute = recompute;
              c.head_chunks = head;
              c.mlp_chunks = mlp;
              c.offload = offload;
              if (offload) c.offload_modules = c.kept_modules();
              c.offload_optimizer = optimizer;
              const StepTaken step = taken(c);
              if (step.memory.peak_total <= memory && (!fastest || step.seconds < *fastest))
                fastest = step.seconds;
            }
  return fastest;
}

/// The search executes a part of all combinations: what it finds fits, and is as fast as any.
TEST(FitSearch, IsAsFastAsAnyOfAllCombinations) {
  const RunConfig config = small(4);
  const int64_t given = taken(config).memory.peak_total;
  int found = 0;
  for (const int percent : {99, 90, 75, 60, 45, 30, 20}) {
    const int64_t memory = given * percent / 100;
    const FitSearch search = searched(config, memory);
    const auto fastest = fastest_by_brute_force(config, memory);
    if (!fastest) continue;
    ++found;
    ASSERT_FALSE(search.fitting.empty()) << percent;
    EXPECT_LE(search.fitting.front().seconds, *fastest)
        << percent << " % of memory: " << search.fitting.front().changes;
    for (const LeanerRun& one : search.fitting) {
      const StepTaken step = taken(one.config);
      EXPECT_EQ(step.memory.peak_total, one.peak) << one.changes;
      EXPECT_LE(one.peak, memory) << one.changes;
      EXPECT_EQ(one.config.micro_batch * one.config.microbatches, 4) << one.changes;
    }
  }
  EXPECT_GE(found, 4);
}

TEST(FitSearch, FindsNothingWhereWeightsAloneAreTooMany) {
  const RunConfig config = small(4);
  const FitSearch search = searched(config, 1 << 20);
  EXPECT_TRUE(search.fitting.empty());
  EXPECT_GT(search.closest.peak, 1 << 20);
  EXPECT_LT(search.closest.peak, taken(config).memory.peak_total);
  EXPECT_FALSE(search.closest.changes.empty());
}

/// Changes that offload to the host are not among the results where the host has no memory.
TEST(FitSearch, KeepsToTheHostsMemory) {
  const RunConfig config = small(4);
  const TrainingRun run = training_of(config);
  const auto target = with_memory(taken(config).memory.peak_total / 2);
  Needed needed = needed_by(run, *target).value();
  needed.host_capacity = 0;
  for (const LeanerRun& one : search_fit(run, *target, needed, [](int64_t) {}).fitting)
    EXPECT_EQ(one.host, 0) << one.changes;
}

}  // namespace
}  // namespace frugal::harness
