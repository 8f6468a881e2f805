#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/schedule/check.h"
#include "engine/schedule/draw.h"
#include "engine/schedule/early_forwards.h"
#include "engine/schedule/text.h"
#include "tests/engine/schedule/shapes.h"
#include "tests/main/left_out.h"

// A forward and a backward pass that are made together.
namespace frugal::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FRUGAL_LEFT_OUT(thread, "PassesTogether.*", "one thread");

/// "F0 B1" of each two of a stage, by chunk.
std::vector<std::string> pairs_of(const Actions& actions) {
  std::vector<std::string> pairs;
  for (size_t i = 0; i < actions.size(); ++i)
    if (actions[i].beside_next)
      pairs.push_back(fmt::format("F{} B{}", actions[i].chunk, actions[i + 1].chunk));
  return pairs;
}

/// DeepSeek's program, dualpipe/dualpipev.py, steps 4 and 5 of step(): of d stages and m
/// microbatches, stage s has _forward_backward_chunk(0, 1) and (1, 0) so often.
TEST(PassesTogether, AreThoseOfDualPipeV) {
  for (const auto& [stages, microbatches] : {std::pair{1, 4}, {2, 4}, {4, 9}, {8, 20}}) {
    const Schedule schedule = make_schedule(
        ScheduleKind::dual_pipe_v, {.stages = stages, .chunks = 2, .microbatches = microbatches});
    for (int stage = 0; stage < stages; ++stage) {
      std::vector<std::string> expected;
      for (int i = 0; i < microbatches - 2 * stages + stage + 1; ++i) {
        if (i > 0 || stage + 1 < stages) expected.emplace_back("F0 B1");
        expected.emplace_back("F1 B0");
      }
      for (int i = 0; i < stages - stage - 1; ++i) expected.emplace_back("F1 B0");
      EXPECT_EQ(pairs_of(schedule.actions[static_cast<size_t>(stage)]), expected) << stage;
    }
  }
}

TEST(PassesTogether, HaveMessagesOfBothAroundThem) {
  const std::string text = to_text(
      make_schedule(ScheduleKind::dual_pipe_v, {.stages = 2, .chunks = 2, .microbatches = 4}));
  EXPECT_THAT(text, HasSubstr("\nF3.0@0 & B1.1@0 F3.0> B1.1>\n"));
  EXPECT_THAT(text, HasSubstr("\n<F3.1 <B1.0 F3.1@0 & B1.0@0\n"));
}

// The same order otherwise, and each pass has its messages next to it.
TEST(PassesTogether, MayBeMadeOneAfterTheOther) {
  for_all_shapes([](ScheduleKind kind, ScheduleShape shape) {
    const Schedule together = make_schedule(kind, shape);
    EXPECT_EQ(makes_together(together),
              kind == ScheduleKind::dual_pipe_v && (shape.stages > 1 || shape.microbatches > 1));
    shape.together = false;
    const Schedule apart = make_schedule(kind, shape);
    EXPECT_FALSE(makes_together(apart));
    EXPECT_THAT(check(apart, 0), IsEmpty());
    EXPECT_THAT(check(one_by_one(together), 0), IsEmpty());
    for (size_t stage = 0; stage < apart.actions.size(); ++stage) {
      const auto passes = [&](Actions actions) {
        std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
        return actions;
      };
      EXPECT_EQ(passes(one_by_one(together).actions[stage]), passes(apart.actions[stage]));
    }
  });
}

std::string file_of(const std::string& kind, const std::string& stage, int batches = 1) {
  return fmt::format(
      "frugal schedule 1\nkind {}\nstages 1\nchunks 1\nmicrobatches 2\nfirst-batch 0\nbatches "
      "{}\nstage 0\n{}",
      kind, batches, stage);
}

/// Finding that the checker has first.
std::string found(const Schedule& schedule) {
  const Findings findings = check(schedule);
  return findings.empty() ? "nothing" : findings.front().describe();
}
std::string found_in(const std::string& stage) {
  return found(schedule_from_text(file_of("gpipe", stage), "x"));
}

TEST(PassesTogether, AreCheckedForWhatOneNeedsOfTheOther) {
  EXPECT_EQ(found_in("F0@0 F1@0\n&\nB0@0 B1@0 step@1"), "nothing");
  EXPECT_EQ(found_in("F0@0 F1@0 & I0@0 W0@0 B1@0 step@1"), "nothing");
  EXPECT_THAT(found_in("F0@0 F1@0 & B1@0 B0@0 step@1"), HasSubstr("of the same microbatch"));
  EXPECT_THAT(found_in("F0@0 & F1@0 B0@0 B1@0 step@1"), HasSubstr("a backward pass must follow"));
  EXPECT_THAT(found_in("F0@0 F1@0 B0@0 & B1@0 step@1"),
              HasSubstr("what is made together with what follows is a forward pass"));
  EXPECT_THAT(found_in("F0@0 F1@0 & B0@0 & B1@0 step@1"),
              HasSubstr("two passes are made together, not three"));
  EXPECT_THAT(found_in("F0@0 F1@0 B0@0 B1@0 step@1 &"), HasSubstr("is a forward pass"));
}

// A message between the two would hold one of them up.
TEST(PassesTogether, AreNextToEachOther) {
  const Schedule schedule = make_schedule(ScheduleKind::one_forward_one_backward,
                                          {.stages = 2, .chunks = 1, .microbatches = 2});
  Schedule apart = schedule;
  apart.actions[0][2].beside_next = true;  // F1@0, whose activation is sent behind it
  EXPECT_EQ(found(apart),
            "stage 0, action 2 (F1@0): a backward pass must follow it, which is made together with "
            "it");
  std::swap(apart.actions[0][3], apart.actions[0][4]);
  EXPECT_THAT(found(apart), HasSubstr("a backward pass must follow it"));
}

TEST(PassesTogether, UseOneVersion) {
  const std::string stage = "F0@0 B0@0 F1@0 B1@0 step@1 F2@0 B2@0 F3@0 B3@0 step@2 ";
  Schedule schedule = schedule_from_text(
      file_of("2bw", stage + "F4@1 B4@1 F5@1 B5@1 step@3 F6@2 B6@2 F7@2 B7@2 step@4", 4), "x");
  EXPECT_EQ(found(schedule), "nothing");
  // A forward pass of the next batch beside the last backward pass of this one.
  schedule = schedule_from_text(
      file_of("gpipe", "F0@0 F1@0 B0@0 F2@0 & B1@0 step@1 F3@1 B2@0 B3@1 step@2", 2), "x");
  EXPECT_THAT(found(schedule), HasSubstr("uses version"));
  schedule.actions[0][3].version = 1;
  EXPECT_THAT(found(schedule), HasSubstr("the pass that is made together with it uses version 0"));
}

// By hand: both begin when both can, and end when both are over.
TEST(PassesTogether, TakeOneStretchOfTime) {
  Schedule schedule = schedule_from_text(file_of("gpipe", "F0@0 F1@0 & B0@0 B1@0 step@1"), "x");
  const auto spans = [&](const Durations& durations) {
    std::vector<std::pair<double, double>> all;
    const Timeline timeline = simulate(schedule, durations, true);
    for (const Span& span : timeline.stages[0]) all.emplace_back(span.begin, span.end);
    return all;
  };
  using Two = std::pair<double, double>;
  EXPECT_THAT(spans({}), ElementsAre(Two(0, 1), Two(1, 4), Two(1, 4), Two(4, 6), Two(6, 6)));
  EXPECT_THAT(spans({.together = 2.5}),
              ElementsAre(Two(0, 1), Two(1, 3.5), Two(1, 3.5), Two(3.5, 5.5), Two(5.5, 5.5)));
  const Timeline timeline = simulate(schedule, {});
  EXPECT_DOUBLE_EQ(bubbles(timeline)[0].busy, 6);
  EXPECT_DOUBLE_EQ(bubbles(timeline)[0].idle(), 0);
  EXPECT_EQ(draw_text({timeline}, false), "gpipe\nstage 0  F0─F1&B0════B1════\n");
  const std::string svg = draw_svg({timeline});
  EXPECT_THAT(svg, HasSubstr("class=\"together\""));
  EXPECT_THAT(svg, HasSubstr("made together"));
  EXPECT_THAT(draw_svg({simulate(one_by_one(schedule), {})}), ::testing::Not(HasSubstr("made to")));
}

}  // namespace
}  // namespace frugal::engine
