#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/schedule/schedules.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

/// A stage that fails, or does not go on, ends the run of all: with its own error, or within the
/// deadline with one that names the stage and the action that waited.
namespace frugal {
namespace {

using testing::small_gpt;

RunConfig config_of(int stages, int tensor) {
  RunConfig config = small_gpt();
  config.model.layers = 4;
  config.microbatches = 4;
  config.pipeline_parallel = stages;
  config.tensor_parallel = tensor;
  return config;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const DeadlinePassed& e) {
    return std::string("deadline: ") + e.what();
  } catch (const OutOfMemory& e) {
    return std::string("memory: ") + e.what();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(PipelineFailures, AStageThatFailsEndsAllOthers) {
  for (const int tensor : {1, 2}) {
    const RunConfig config = config_of(4, tensor);
    const auto cluster = make_cpu_cluster(config, 1, 60);
    Trainer trainer(*cluster, config, {});
    Batch batch = random_batch(config, 0);
    batch[2].labels[5] = config.model.vocabulary;  // the last stage refuses it, in its third pass
    const std::string error = error_of([&] { (void)trainer.step(batch); });
    EXPECT_NE(error, "no error");
    EXPECT_EQ(error.find("deadline"), std::string::npos) << error;
    // The cluster can be used again.
    EXPECT_EQ(error_of([&] { (void)trainer.evaluate(random_batch(config, 1)); }), "no error");
  }
}

TEST(PipelineFailures, AStageThatStopsIsFoundByItsNeighbours) {
  const RunConfig config = config_of(4, 1);
  const auto cluster = make_cpu_cluster(config, 1, 0.3);
  Trainer trainer(*cluster, config, {});
  Schedule schedule =
      make_schedule(ScheduleKind::one_forward_one_backward, {.stages = 4, .microbatches = 4});
  // Stage 2 never sends the gradient of microbatch 1.
  std::erase_if(schedule.actions[2], [](const Action& action) {
    return action.kind == ActionKind::send_gradient && action.microbatch == 1;
  });
  const std::string error =
      error_of([&] { (void)trainer.run({random_batch(config, 0)}, schedule); });
  EXPECT_NE(error.find("deadline: stage"), std::string::npos) << error;
}

}  // namespace
}  // namespace frugal
