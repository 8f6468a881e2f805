#include <gtest/gtest.h>

#include <limits>

#include "engine/schedule/schedules.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

/// Time that stages that do not meet gain on the clocks of a virtual machine: a stage begins the
/// next batch while later stages are still at this one.
namespace frugal::engine {
namespace {

constexpr size_t periods = 4;

struct Periods {
  std::vector<double> seconds;  // of each batch, until the last stage's end of it
  Timeline timeline;
};

/// Runs so many tokens in a microbatch that steps take little beside passes.
RunConfig timed_run(const ScheduleKind& kind, int stages, StepValidation validation) {
  RunConfig run = testing::small_llama();
  run.model.layers = 8;
  run.model.hidden = 4096;
  run.model.intermediate = 8192;
  run.model.heads = 32;
  run.model.sequence = 4096;
  run.micro_batch = 16;
  run.type = DType::bf16;
  run.schedule = kind;
  if (kind.chunks > 0) run.chunks = kind.chunks;
  run.pipeline_parallel = stages;
  run.microbatches = 12;
  run.validate_steps = validation;
  return run;
}

Periods periods_of(const RunConfig& run) {
  Machine machine = find_machine("a100-selene");
  machine.memory_capacity = std::numeric_limits<int64_t>::max();
  const auto cluster = make_virtual_cluster(run, machine);
  Trainer trainer(*cluster, run, {.optimizer = {}, .steps = periods});
  trainer.keep_timeline(true);
  Periods all;
  const std::vector<Batch> batches(periods, Batch(static_cast<size_t>(run.microbatches)));
  for (const StepResult& step : trainer.run(batches)) all.seconds.push_back(step.seconds);
  all.timeline = trainer.timeline();
  return all;
}

/// Mean of a stage in the middle, as if it had one chunk.
double mean(const Timeline& timeline, ActionKind kind) {
  double seconds = 0;
  int count = 0;
  for (const Span& span : timeline.stages[1])
    if (span.action.kind == kind) seconds += span.end - span.begin, ++count;
  return count == 0 ? 0 : timeline.chunks * seconds / count;
}

/// Plan of passes that take as long: a batch whose stages all wait for the last, and
/// batches whose stages wait for messages alone.
struct PlannedPeriods {
  double meeting, late;
};
PlannedPeriods planned(const RunConfig& run, const Timeline& timeline) {
  const Durations durations{.forward = mean(timeline, ActionKind::forward),
                            .backward = mean(timeline, ActionKind::backward),
                            .input_backward = mean(timeline, ActionKind::input_backward),
                            .weight_backward = mean(timeline, ActionKind::weight_backward)};
  const auto until = [&](int batches) {
    const Schedule schedule = make_schedule(run.schedule, {.stages = run.pipeline_parallel,
                                                           .chunks = run.chunks,
                                                           .microbatches = 12,
                                                           .batches = batches});
    return simulate(schedule, durations).end();
  };
  return {until(1), until(3) - until(2)};
}

/// Nothing is left of zb-h2's bubble but what steps take (figure 5 of Qi et al. 2024). Stages of
/// 1f1b and zb-h1 end a batch together, and nothing is gained.
TEST(LateValidationTime, IsShorterByThePlansBubble) {
  for (const ScheduleKind& kind :
       {ScheduleKind::zero_bubble_h2, ScheduleKind::zero_bubble_h1, ScheduleKind::zero_bubble_v,
        ScheduleKind::one_forward_one_backward}) {
    const RunConfig run = timed_run(kind, 4, StepValidation::before);
    const Periods meeting = periods_of(run);
    const Periods late = periods_of(timed_run(kind, 4, StepValidation::after));
    const PlannedPeriods plan = planned(run, meeting.timeline);
    const double saved = (meeting.seconds[2] - late.seconds[2]) / meeting.seconds[2];
    EXPECT_NEAR(saved, (plan.meeting - plan.late) / plan.meeting, 0.0025) << kind.name;
    EXPECT_NEAR(late.seconds[1] / late.seconds[2], 1, 1e-9) << kind.name;
    if (kind == ScheduleKind::zero_bubble_h2) {
      EXPECT_GT(saved, 0.02);
    }
  }
}

TEST(LateValidationTime, IsTheSameOfOneStage) {
  const auto seconds = [](StepValidation validation) {
    return periods_of(timed_run(ScheduleKind::one_forward_one_backward, 1, validation)).seconds;
  };
  EXPECT_EQ(seconds(StepValidation::after), seconds(StepValidation::before));
}

}  // namespace
}  // namespace frugal::engine
