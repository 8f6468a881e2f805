#include "engine/schedule/early_forwards.h"

#include <gmock/gmock.h>

#include "engine/schedule/schedules.h"

namespace frugal::engine {
namespace {

using ::testing::ElementsAre;

std::vector<int> behind_first_step(const Schedule& schedule) {
  const EarlyForwards early(schedule);
  std::vector<int> passes;
  for (int stage = 0; stage < schedule.stages; ++stage) passes.push_back(early.passes(stage, 0));
  return passes;
}

Schedule two_batches(const ScheduleKind& kind, int stages, int microbatches) {
  return make_schedule(kind, {.stages = stages,
                              .chunks = kind.has_chunks ? 2 : 1,
                              .microbatches = microbatches,
                              .batches = 2});
}

TEST(EarlyForwards, AreTheWarmUpOfEachStageButTheLast) {
  EXPECT_THAT(behind_first_step(two_batches(ScheduleKind::one_forward_one_backward, 4, 8)),
              ElementsAre(4, 3, 2, 0));
  EXPECT_THAT(behind_first_step(two_batches(ScheduleKind::zero_bubble_h2, 4, 8)),
              ElementsAre(7, 5, 3, 0));
  EXPECT_THAT(behind_first_step(two_batches(ScheduleKind::gpipe, 3, 5)), ElementsAre(5, 5, 0));
  // Before a pass through a chunk that the last stage comes before.
  EXPECT_THAT(behind_first_step(two_batches(ScheduleKind::interleaved, 4, 8)),
              ElementsAre(4, 4, 4, 0));
}

TEST(EarlyForwards, AreForwardPassesThatNoStageWaitsForInVain) {
  for (const ScheduleKind& kind : ScheduleKind::all())
    for (const int stages : {2, 3, 4, 5}) {
      if (!kind.flushes) continue;
      const Schedule schedule = two_batches(kind, stages, 2 * stages);
      const EarlyForwards early(schedule);
      for (int stage = 0; stage < stages; ++stage) {
        const Actions& actions = schedule.actions[static_cast<size_t>(stage)];
        size_t at = 0;
        while (actions[at].kind != ActionKind::step) ++at;
        for (size_t i = at + 1; i <= at + early.actions(stage, 0); ++i) {
          EXPECT_EQ(actions[i].chunk, 0) << kind.name;
          EXPECT_TRUE(!is_pass(actions[i].kind) || actions[i].kind == ActionKind::forward);
        }
        if (stage > 0) {
          EXPECT_LE(early.passes(stage, 0), early.passes(stage - 1, 0)) << kind.name;
        }
        EXPECT_EQ(early.passes(stage, 1), 0) << "nothing follows the last batch";
      }
      EXPECT_GT(early.passes(0, 0), 0) << kind.name;
      EXPECT_EQ(early.passes(stages - 1, 0), 0) << kind.name;
    }
}

/// A file may have stages in different orders: what a stage receives early, the one before it sends
/// early.
TEST(EarlyForwards, AreNoMoreThanOfTheStageBefore) {
  Schedule schedule = two_batches(ScheduleKind::one_forward_one_backward, 3, 4);
  EXPECT_THAT(behind_first_step(schedule), ElementsAre(3, 2, 0));
  schedule.actions[1] = two_batches(ScheduleKind::gpipe, 3, 4).actions[1];
  EXPECT_THAT(behind_first_step(schedule), ElementsAre(3, 3, 0));
}

/// A file may have a stage ask for a message of the next batch before its step.
TEST(EarlyForwards, AreNoneWhereAStageReceivesAhead) {
  Schedule schedule = two_batches(ScheduleKind::one_forward_one_backward, 3, 4);
  Actions& actions = schedule.actions[1];
  size_t at = 0;
  while (actions[at].kind != ActionKind::step) ++at;
  std::swap(actions[at], actions[at + 1]);
  EXPECT_THAT(behind_first_step(schedule), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace frugal::engine
