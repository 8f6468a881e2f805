#pragma once
#include <vector>

#include "tests/engine/support.h"

namespace frugal::testing {

inline constexpr int64_t replica_steps = 3;

/// Adam with an epsilon like gradients here: its step would otherwise be as large of those that are
/// nothing but rounding, as the keys' biases' are.
inline TrainConfig replica_training(double clip) {
  return {.optimizer = {.learning_rate = 1e-2, .epsilon = 1e-3, .weight_decay = 0.1, .clip = clip},
          .steps = replica_steps};
}

/// Steps, and the parameters after them.
struct TrainedRun {
  std::vector<StepResult> steps;
  HostTensors end;
};

/// Training on the processor, by two threads for each rank.
inline TrainedRun trained(const RunConfig& config, const TrainConfig& train) {
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, train);
  trainer.warm_up(random_batch(config, 0));
  std::vector<Batch> batches;
  for (int64_t step = 0; step < replica_steps; ++step)
    batches.push_back(random_batch(config, step));
  TrainedRun run{trainer.run(batches), {}};
  run.end = trainer.snapshot(random_batch(config, 0)[0]);
  return run;
}

}  // namespace frugal::testing
