// Stages that tell each other their norms without meeting (NormRelay).
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "engine/optimizer/post_validation.h"
#include "tests/nccl/divisions.h"
#include "tests/nccl/setting.h"

namespace frugal::engine {
namespace {

/// The first message between two ranks waits for both hosts: those between stages that are no
/// neighbours have been exchanged before the first step.
TEST(NormRelayOnSeveralGpus, TheFirstStageDoesNotWaitForTheHostOfTheLast) {
  if (testing::most_ranks() < 3) GTEST_SKIP() << "of three ranks";
  RunConfig run = tiny_gpt();
  choose_pipeline(run, ScheduleKind::one_forward_one_backward);
  run.pipeline_parallel = 3;
  run.model.layers = 3;
  run.validate_steps = StepValidation::after;
  const auto cluster = make_cuda_cluster(run);
  const Trainer trainer(*cluster, run, {});
  std::promise<void> begun;
  const std::shared_future<void> first = begun.get_future().share();
  cluster->run([&](Rank& rank) {
    const Tensor own = rank.allocate(DType::f64, {1});
    rank.run(Fill{own, 1});
    NormRelay relay(rank);
    if (rank.stage() == 2) {
      EXPECT_EQ(first.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    }
    relay.begin(own);
    if (rank.stage() == 0) begun.set_value();
    EXPECT_EQ(relay.before(), rank.stage());
    EXPECT_EQ(relay.all(), 3);
  });
}

}  // namespace
}  // namespace frugal::engine
