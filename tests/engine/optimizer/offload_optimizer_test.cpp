// An optimizer whose state is in the host's memory trains the same weights, bit by bit.
#include <gtest/gtest.h>

#include "engine/optimizer/update.h"
#include "kernels/support/error.h"
#include "tests/engine/support.h"

namespace frugal::engine {
namespace {

struct OffloadedRun {
  HostTensors tensors;
  int64_t on_device = 0, on_host = 0;  ///< bytes of optimizer state between steps
};

OffloadedRun offloaded_run(RunConfig config, OptimizerKind kind, bool offload) {
  config.offload_optimizer = offload;
  TrainConfig options;
  options.optimizer.kind = kind;
  options.optimizer.clip = config.step_in_backward ? 0 : 1;
  options.steps = 3;
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, options);
  for (int64_t step = 0; step < options.steps; ++step) trainer.step(random_batch(config, step));
  const Rank& rank = cluster->rank(0);
  return {trainer.snapshot(random_batch(config, 9)[0]), rank.ledger.current(Kind::optimizer),
          rank.host.current(Kind::optimizer)};
}

RunConfig mixed() {
  RunConfig c = testing::small_llama();
  c.type = DType::bf16;
  return c;
}

TEST(OffloadedOptimizer, TrainsTheSameWeights) {
  using Case = std::pair<RunConfig, OptimizerKind>;
  RunConfig early = mixed(), pure = mixed();
  early.step_in_backward = true;
  pure.precision = Precision::pure;
  for (const auto& [config, kind] : {Case{mixed(), OptimizerKind::sgd},
                                     {mixed(), OptimizerKind::momentum},
                                     {early, OptimizerKind::adam},
                                     {pure, OptimizerKind::adamw}}) {
    const OffloadedRun here = offloaded_run(config, kind, false),
                       away = offloaded_run(config, kind, true);
    for (const auto& [name, tensor] : here.tensors)
      EXPECT_EQ(away.tensors.at(name).values, tensor.values) << name_of(kind) << " " << name;
    EXPECT_EQ(away.on_device, 0);
    EXPECT_EQ(away.on_host, here.on_device);
    EXPECT_EQ(here.on_host, 0);
  }
}

TEST(OffloadedOptimizer, IsRefusedWhereThereIsNoState) {
  EXPECT_THROW(offloaded_run(testing::small_llama(), OptimizerKind::sgd, true), InputError);
}

/// More elements than come to the device at a time.
TEST(OffloadedOptimizer, VisitsEveryElementOnce) {
  RunConfig config = testing::small_gpt();
  config.type = DType::bf16;
  config.offload_optimizer = true;
  const auto cluster = make_cpu_cluster(config, 2);
  cluster->run([&](Rank& rank) {
    constexpr int64_t n = (1 << 24) + 5;
    const Tensor weights = rank.allocate({n});
    rank.run(RandomNormal{weights, 1, {3, 4, 5}, {}});
    const OptimizerState state(rank, weights, 2, true);
    const Tensor seen = rank.allocate(DType::f32, {n});
    const auto add_one = [&](const OptimizerState::Part& part) {
      const View there = seen.view().sliced(0, part.begin, part.count);
      rank.run(Copy{part.master, part.moment, true});  // moment += master
      rank.run(Convert{part.moment, there});
    };
    state.update(rank, add_one);
    state.update(rank, add_one);
    const auto sum = [&](const View& x) {
      const Tensor total = rank.allocate(DType::f64, {1});
      rank.run(Fill{total, 0});
      rank.run(Sum{x, total});
      double value = 0;
      rank.device.copy_to_host(&value, total);
      return value;
    };
    EXPECT_NEAR(sum(seen), 2 * sum(weights), 1e-6 * n);
    float last = 0, expected = 0;
    const Tensor wide = rank.allocate(DType::f32, {1});
    rank.run(Convert{weights.view().sliced(0, n - 1, 1), wide});
    rank.device.copy_to_host(&last, seen.view().sliced(0, n - 1, 1));
    rank.device.copy_to_host(&expected, wide);
    EXPECT_EQ(last, 2 * expected);
  });
}

TEST(OffloadedOptimizer, PredictsNothing) {
  RunConfig config = testing::small_gpt();
  config.offload_optimizer = true;
  config.schedule = ScheduleKind::two_buffered;
  config.pipeline_parallel = 2;
  config.microbatches = 2;
  OptimizerOptions options;
  options.prediction = 1;
  const auto cluster = make_cpu_cluster(config, 2);
  EXPECT_THROW(Trainer(*cluster, config, {.optimizer = options}), InputError);
}

}  // namespace
}  // namespace frugal::engine
