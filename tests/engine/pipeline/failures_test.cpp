#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

/// A stage that fails, or does not go on, ends the run of all: with its own error, or within the
/// deadline with one that names the stage and the action that waited.
namespace frugal::engine {
namespace {

using ::testing::ContainsRegex;
using testing::error_of;
using testing::small_gpt;

RunConfig config_of(int stages, int tensor) {
  RunConfig config = small_gpt();
  config.model.layers = 4;
  config.microbatches = 4;
  config.pipeline_parallel = stages;
  config.tensor_parallel = tensor;
  return config;
}

TEST(PipelineFailures, AStageThatFailsEndsAllOthers) {
  for (const int tensor : {1, 2}) {
    const RunConfig config = config_of(4, tensor);
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {});
    const Batch batch = random_batch(config, 0);
    int passes = 0;  // of one rank of the last stage
    Rank& last = cluster->rank(3 * tensor);
    last.device.time_operations([&](const Operation& operation, double /*seconds*/) {
      const bool has_logits = std::holds_alternative<CrossEntropyStatistics>(operation);
      if (has_logits && ++passes == 3) throw std::runtime_error("enough");
    });
    EXPECT_EQ(error_of([&] { (void)trainer.step(batch); }),
              fmt::format("rank {}: enough", 3 * tensor));
    last.device.time_operations({});
    // The ranks can be used again.
    EXPECT_EQ(error_of([&] { (void)Trainer(*cluster, config, {}).step(batch); }), "no error");
  }
}

TEST(PipelineFailures, AStageThatStopsIsFoundByItsNeighbours) {
  RunConfig config = config_of(4, 1);
  // The stages behind have long passes still to make when those before begin to wait.
  config.model.hidden = 128;
  config.model.sequence = 64;
  const auto cluster = make_cpu_cluster(config, 1, 2);
  Trainer trainer(*cluster, config, {});
  Schedule schedule =
      make_schedule(ScheduleKind::one_forward_one_backward, {.stages = 4, .microbatches = 4});
  // Stage 2 sends no gradient after the first.
  std::erase_if(schedule.actions[2], [](const Action& action) {
    return action.kind == ActionKind::send_gradient && action.microbatch >= 1;
  });
  const std::string error =
      error_of([&] { (void)trainer.run({random_batch(config, 0)}, schedule); });
  // Stage 0 waits for what stage 1 would compute from it.
  EXPECT_THAT(error, ContainsRegex("^deadline: all ranks wait for each other: stage [01], .*B1.*; "
                                   "rank 0 waits for receive 1 of "
                                   "the gradients group .65536 B. since "));
}

/// Schedules that no checker has seen: a pass that has nothing to compute from.
TEST(PipelineFailures, APassWithoutItsMessageIsRefused) {
  const RunConfig config = config_of(2, 1);
  for (const auto& [kind, first, second, says] :
       {std::tuple{ScheduleKind::one_forward_one_backward, ActionKind::receive_gradient,
                   ActionKind::backward,
                   "rank 0: stage 0, B1@0: its gradient has not been received"},
        std::tuple{ScheduleKind::zero_bubble_h1, ActionKind::receive_gradient,
                   ActionKind::input_backward,
                   "rank 0: stage 0, I1@0: its gradient has not been received"},
        std::tuple{ScheduleKind::gpipe, ActionKind::receive_activation, ActionKind::forward,
                   "rank 1: stage 1, F1@0: its activation has not been received"}}) {
    Schedule schedule = make_schedule(kind, {.stages = 2, .microbatches = 4});
    for (Actions& actions : schedule.actions) {
      const auto of = [&](ActionKind which) {
        return std::ranges::find_if(
            actions, [&](const Action& a) { return a.kind == which && a.microbatch == 1; });
      };
      const auto from = of(first), to = of(second);
      if (from != actions.end()) std::rotate(from, from + 1, to + 1);
    }
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {});
    EXPECT_EQ(error_of([&] { (void)trainer.run({random_batch(config, 0)}, schedule); }), says);
  }
}

}  // namespace
}  // namespace frugal::engine
