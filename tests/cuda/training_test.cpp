// Training on a GPU beside the CPU: the same losses, step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/gpus.h"
#include "tests/cuda/losses.h"

namespace frugal::engine {
namespace {

/// 3.4 million parameters.
RunConfig small_gpt() {
  RunConfig config;
  config.model = {.name = "gpt-3m",
                  .layers = 4,
                  .hidden = 256,
                  .heads = 8,
                  .sequence = 128,
                  .vocabulary = 256,
                  .dropout = 0.1};
  config.micro_batch = 4;
  return config;
}

TEST(TrainingOnTheGpu, FollowsTheCpuWithDropout) {
  // The CPU has no tf32 to compare with.
  if (tf32_products()) GTEST_SKIP() << "FRUGAL_TF32 is set";
  constexpr int64_t steps = 200;
  const RunConfig run = small_gpt();
  const auto gpu = make_cuda_cluster(run);
  const auto cpu = make_cpu_cluster(run, 8);
  const std::vector<double> ours = losses(*gpu, run, steps), theirs = losses(*cpu, run, steps);
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, std::abs(ours[i] - theirs[i]));
  EXPECT_LT(theirs.back(), theirs.front() - 0.5) << "nothing was learned, so nothing compared";
  RecordProperty("largest_difference", std::to_string(worst));
  EXPECT_LT(worst, 1e-3);
}

TEST(TrainingOnTheGpu, RecomputationChangesNothing) {
  RunConfig run = small_gpt();
  run.type = DType::bf16;
  const auto with = [&](Recompute recompute) {
    run.recompute = recompute;
    return losses(*make_cuda_cluster(run), run, 10);
  };
  const std::vector<double> plain = with(Recompute::none);
  // Algorithms of products are chosen anew by each cluster, so the last bits may differ.
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    const std::vector<double> again = with(recompute);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(again[i], plain[i], 2e-3);
  }
}

}  // namespace
}  // namespace frugal::engine
