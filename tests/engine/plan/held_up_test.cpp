#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "engine/comm/failure.h"
#include "engine/program/find_program.h"
#include "kernels/support/error.h"
#include "tests/engine/plan/support.h"

/// Predictions where messages hold up passes, against execution.
namespace frugal::engine {
namespace {

using testing::executed;
using testing::flush;
using ::testing::HasSubstr;
using testing::planned_gpt;
using testing::predicted;
using ::testing::ThrowsMessage;
using testing::two_buffered;

const char* const papers_program = "pipedream-2bw-2021:time:messages";

RunConfig held_up(const ScheduleKind& kind, int stages, int64_t microbatches,
                  const char* program = papers_program) {
  RunConfig run = planned_gpt(16, 1024, 16);
  run.schedule = kind;
  run.pipeline_parallel = stages;
  run.micro_batch = 2;
  run.microbatches = microbatches;
  run.program = find_program(program);
  return run;
}

/// Part of the executed time by which the predicted one differs from it.
double error_of(const RunConfig& run, const Machine& machine) {
  return predicted(run, machine).seconds / executed(run, machine).seconds - 1;
}

std::string text_of(const RunConfig& run) {
  return fmt::format("{}, {}, {} stages, {} replicas, {} microbatches", run.program.name,
                     run.schedule.name, run.pipeline_parallel, run.data_parallel, run.microbatches);
}

/// True if messages of such a pipeline can be exchanged.
bool is_exchanged(const ScheduleKind& kind) {
  return !kind.has_chunks && kind != ScheduleKind::zero_bubble_h2;
}

/// The machine of the paper, whose host is late for every kernel: of stages of the same layers
/// nothing is left that the clock would not know.
TEST(HeldUp, ThePapersProgramTakesWhatItIsSeenToTake) {
  const Machine machine = find_machine("v100-p3-16xlarge");
  for (const ScheduleKind& kind : {flush, ScheduleKind::gpipe, ScheduleKind::inter_layer})
    for (const int stages : {2, 4, 8, 16})
      for (const int microbatches : {16, 32, 128})
        for (const int sequences : {2, 8}) {  // whose message has 2 MiB, or 8
          RunConfig run = held_up(kind, stages, microbatches);
          run.micro_batch = sequences;
          run.data_parallel = sequences / 2;
          EXPECT_LT(std::abs(error_of(run, machine)), 0.001) << text_of(run);
        }
}

/// Machines on which messages are alone: hosts that are never late, and a network that is as slow
/// as passes, or far slower.
class EveryMessage : public ::testing::TestWithParam<const char*> {
 protected:
  static Machine on_network(double slower) {
    Machine machine = testing::free_running();
    machine.devices_per_node = 2;
    machine.network_bandwidth /= slower;
    return machine;
  }
};

TEST_P(EveryMessage, HoldsUpPassesAsItIsSeenTo) {
  for (const double slower : {1, 16})
    for (const ScheduleKind& kind : ScheduleKind::all()) {
      if (!kind.predicted() || !is_exchanged(kind)) continue;
      for (const int stages : {2, 4, 8})
        for (const int microbatches : {16, 64}) {
          const RunConfig run = held_up(kind, stages, microbatches, GetParam());
          EXPECT_LT(std::abs(error_of(run, on_network(slower))), 0.001)
              << text_of(run) << ", network slower by " << slower;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(HeldUp, EveryMessage,
                         ::testing::Values(papers_program, "megatron-lm-2022:time:messages",
                                           "exchanged-messages", "blocking-messages",
                                           "exchanged-messages+buffered-messages+shared-ports"),
                         [](const auto& of) {
                           std::string name = of.param;
                           for (const char other : {'-', ':', '+'})
                             std::ranges::replace(name, other, '_');
                           return name;
                         });

/// Warm-up of more microbatches than stages can exchange before a backward pass.
TEST(HeldUp, ZeroBubbleH2WouldWaitForItself) {
  const RunConfig run = held_up(ScheduleKind::zero_bubble_h2, 4, 16);
  const Machine machine = find_machine("v100-p3-16xlarge");
  EXPECT_THROW(executed(run, machine), DeadlinePassed);
  EXPECT_THAT([&] { (void)predicted(run, machine); },
              ThrowsMessage<InputError>(HasSubstr("schedule is zb-h2, and the program")));
  const Plan plan = search(testing::plan_request(run, "v100-p3-16xlarge", 8, 64, run.schedule));
  EXPECT_GT(plan.refused, 0);
  EXPECT_FALSE(plan.fitting.empty()) << "with few microbatches it does not";
  for (const Candidate& candidate : plan.fitting) EXPECT_NO_THROW(executed(candidate.run, machine));
}

TEST(HeldUp, BlockingMessagesOfChunks) {
  const Machine machine = testing::free_running();
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    if (!kind.predicted() || !kind.has_chunks) continue;
    RunConfig run = held_up(kind, 4, 16, "megatron-lm-2022:time:messages");
    run.chunks = kind.chunks > 0 ? kind.chunks : 2;
    EXPECT_LT(std::abs(error_of(run, machine)), 0.001) << text_of(run);
  }
}

TEST(HeldUp, PartsOfABatchAddUp) {
  const Machine machine = testing::free_running();
  for (const ScheduleKind& kind : {flush, ScheduleKind::gpipe, two_buffered}) {
    RunConfig run = held_up(kind, 8, 64);
    const Prediction prediction = predicted(run, machine);
    run.program = find_program("pipedream-2bw-2021:time");
    const Prediction beside = predicted(run, machine);
    for (const double part : prediction.parts) EXPECT_GE(part, -1e-12) << kind.name;
    EXPECT_GT(prediction.part(Bound::messages), 2 * beside.part(Bound::messages)) << kind.name;
    for (const Bound bound : {Bound::compute, Bound::update, Bound::bubble})
      EXPECT_NEAR(prediction.part(bound), beside.part(bound), 1e-9) << kind.name;
  }
}

}  // namespace
}  // namespace frugal::engine
