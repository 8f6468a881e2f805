#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "engine/train/trainer.h"

namespace frugal::engine {

/// A small model's run with some option.
struct Variant {
  const char* name;
  std::function<void(RunConfig&)> choose;
};

inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

/// Losses of training steps on four batches that come again and again, so that there is something
/// to learn: of random tokens that come once every program has the same loss, right or wrong.
inline std::vector<double> losses(Cluster& cluster, const RunConfig& run, int64_t steps,
                                  double learning_rate = 1e-3) {
  TrainConfig train;
  train.steps = steps;
  train.optimizer.learning_rate = learning_rate;
  train.warm_up = steps / 20;
  if (run.step_in_backward) train.optimizer.clip = 0;
  Trainer trainer(cluster, run, train);
  std::vector<double> all;
  for (int64_t step = 0; step < steps; ++step)
    all.push_back(trainer.step(random_batch(run, step % 4)).loss);
  return all;
}

inline RunConfig tiny_gpt() {
  RunConfig config;
  config.model = {
      .name = "gpt", .layers = 2, .hidden = 32, .heads = 2, .sequence = 16, .vocabulary = 48};
  config.micro_batch = 2;
  return config;
}

/// Expects equal losses of training on GPUs and on the CPU, in which something is learned.
inline void expect_losses_of_the_cpu(const RunConfig& run, int64_t steps = 14) {
  constexpr double rate = 0.003;
  const double allowed = run.type == DType::bf16 ? 2e-2 : run.type == DType::f32 ? 1e-4 : 1e-10;
  const auto gpu = make_cuda_cluster(run);
  const auto cpu = make_cpu_cluster(run, 1);
  const std::vector<double> ours = losses(*gpu, run, steps, rate),
                            theirs = losses(*cpu, run, steps, rate);
  EXPECT_LT(theirs.back(), theirs.front() - 10 * allowed) << "nothing was learned";
  for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], theirs[i], allowed) << "step " << i;
}

}  // namespace frugal::engine
