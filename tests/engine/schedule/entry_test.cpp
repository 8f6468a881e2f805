#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "engine/schedule/check.h"
#include "engine/schedule/draw.h"
#include "engine/schedule/passes.h"
#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "tests/engine/plan/support.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"
#include "tests/support/source_dir.h"

// Further schedules, each one entry, that no list has.
namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const ScheduleKind breadth_first = {
    .name = "breadth-first",
    .help = "gpipe with v chunks of the model on each stage",
    .source = "Lamy-Poirier 2023, Breadth-First Pipeline Parallelism",
    .has_chunks = true,
    .with_one_chunk = "gpipe",
    .steady = SteadyState::one_way,
    .passes =
        [](const StageFill& fill) {
          Passes passes;
          for (int chunk = 0; chunk < fill.chunks; ++chunk)
            for (int k = 0; k < fill.microbatches; ++k) passes.forward(k, chunk);
          for (int chunk = fill.chunks; chunk-- > 0;)
            for (int k = 0; k < fill.microbatches; ++k) passes.backward(k, chunk);
          return passes;
        },
    .in_flight = [](const StageFill& fill) { return fill.chunks * fill.microbatches; },
};

// Right where 2 · microbatches ≥ stages.
const ScheduleKind three_buffered = {
    .name = "3bw",
    .help = "2bw with gradients that come two steps late",
    .source = "",
    .flushes = false,
    .delay = 2,
    .passes = passes_of_1f1b,
    .in_flight = in_flight_of_1f1b,
};

TEST(ScheduleEntry, IsMadeAndFoundRight) {
  for (const int stages : {1, 2, 3, 4})
    for (const int microbatches : {1, 3, 4})
      for (const int batches : {1, 3}) {
        ScheduleShape shape = {
            .stages = stages, .chunks = 3, .microbatches = microbatches, .batches = batches};
        // A stage receives no activation back before it has sent all of a chunk's.
        EXPECT_THAT(check(make_schedule(breadth_first, shape), microbatches), IsEmpty());
        shape.chunks = 1;
        if (2 * microbatches < stages) continue;
        EXPECT_THAT(check(make_schedule(three_buffered, shape), 0), IsEmpty());
      }
}

TEST(ScheduleEntry, IsHeldToWhatItSays) {
  Schedule schedule =
      make_schedule(ScheduleKind::gpipe, {.stages = 2, .microbatches = 4, .batches = 4});
  schedule.kind = three_buffered;
  assign_versions(schedule);
  EXPECT_THAT(check(schedule).front().describe(),
              HasSubstr("it holds up to 4 microbatches at once; 3bw allows it 2"));
  schedule = make_schedule(three_buffered, {.stages = 2, .microbatches = 4, .batches = 4});
  EXPECT_THAT(to_text(schedule), HasSubstr("B15@1"));
  EXPECT_EQ(three_buffered.versions_limit({}), 3);
  EXPECT_THAT([] { make_schedule(breadth_first, {.stages = 2}); },
              ThrowsMessage<InputError>(HasSubstr("(with one chunk this is gpipe)")));
}

// By hand; and each stage waits (p − 1) times for a pass through a chunk, there and back.
FRUGAL_LEFT_OUT(thread, "ScheduleEntry.IsSimulatedAndDrawn", "one thread");
TEST(ScheduleEntry, IsSimulatedAndDrawn) {
  const ScheduleShape small = {.stages = 2, .chunks = 2, .microbatches = 2};
  const Timeline planned = simulate(make_schedule(breadth_first, small));
  EXPECT_EQ(draw_text({planned}, false),
            "breadth-first\n"
            "stage 0  F0a─F1a─F0b─F1b─            B0b═════B1b═════B0a═════B1a═════\n"
            "stage 1      F0a─F1a─F0b─F1b─B0b═════B1b═════B0a═════B1a═════\n");
  EXPECT_THAT(draw_svg({planned}), HasSubstr("breadth-first"));
  for (const int stages : {2, 3, 4, 8})
    for (const Bubble& bubble : bubbles(simulate(make_schedule(
             breadth_first, {.stages = stages, .chunks = 2, .microbatches = stages + 1}))))
      EXPECT_DOUBLE_EQ(bubble.idle(), (stages - 1) * (1 + 2) / 2.0);
}

std::vector<double> losses_of(const ScheduleKind& kind) {
  RunConfig config = testing::small_gpt();
  config.model.layers = 8;
  config.schedule = kind;
  config.pipeline_parallel = 2;
  config.chunks = 2;
  config.microbatches = 4;
  const auto cluster = make_cpu_cluster(config, 1, 60);
  Trainer trainer(*cluster, config, {});
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(trainer.step(random_batch(config, i)).loss);
  Batch held_out = random_batch(config, 3);
  held_out.resize(3);
  losses.push_back(trainer.evaluate(held_out));
  return losses;
}

// Both add up a weight's gradient in the order of microbatches.
TEST(ScheduleEntry, IsTrained) {
  EXPECT_EQ(losses_of(breadth_first), losses_of(ScheduleKind::interleaved));
}

// One clock plays it for the drawer and for the planner, as the executor executes it.
TEST(ScheduleEntry, IsPredicted) {
  RunConfig run = testing::planned_gpt(16, 1024, 16);
  run.schedule = breadth_first;
  run.pipeline_parallel = 4;
  run.chunks = 2;
  run.microbatches = 8;
  testing::expect_predicted(run, testing::free_running(), 0.001);
}

TEST(ScheduleEntry, ThoseListedSayWhatTheyAre) {
  const std::string page = read_text(testing::source_dir() + "/docs/schedules.md");
  std::set<std::string_view> names;
  for (const ScheduleKind& kind : ScheduleKind::all()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    const std::string row = fmt::format("| `{}` | {} |", kind.name, kind.help);
    EXPECT_NE(page.find(row), std::string::npos) << "docs/schedules.md has no row " << row;
    EXPECT_NE(kind.source, "") << kind.name;
  }
}

}  // namespace
}  // namespace frugal::engine
