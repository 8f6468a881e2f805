#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/train/trainer.h"
#include "kernels/support/error.h"
#include "tests/combinations/draw.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

bool is_right(const RunConfig& config) {
  try {
    config.validate();
    return true;
  } catch (const InputError&) {
    return false;
  }
}

struct Drawn {
  RunConfig config;
  TrainConfig train;
};

/// A small run of as many ranks as there are processes: stages divide what replicas and parts of
/// tensors and sequences leave.
Drawn draw(uint64_t seed, int number) {
  Draw drawing(seed * 1000 + static_cast<uint64_t>(number));
  Drawn drawn;
  RunConfig& c = drawn.config;
  do {
    c = drawing.combination();
    c.pipeline_parallel = std::max(world().size() * c.pipeline_parallel / c.ranks(), 1);
    c.stage_layers.clear();
    c.model.layers = std::max(2, c.pipeline_parallel * c.chunks);
  } while (c.ranks() != world().size() || !is_right(c));
  // One that has a state, where that is offloaded.
  drawn.train.optimizer.kind =
      c.offload_optimizer ? OptimizerKind::adam : static_cast<OptimizerKind>(number % 4);
  drawn.train.optimizer.learning_rate = 3e-3;
  drawn.train.optimizer.clip = number % 3 == 0 || c.step_in_backward ? 0 : 1;
  drawn.train.steps = 3;
  return drawn;
}

/// All that a training says, and the weights that it comes to, bit for bit.
struct Told {
  std::vector<double> numbers;
  HostTensors weights;
};

Told train(Cluster& cluster, const Drawn& run) {
  Told told;
  Trainer trainer(cluster, run.config, run.train);
  std::vector<Batch> batches;
  for (int step = 0; step < run.train.steps; ++step)
    batches.push_back(random_batch(run.config, step));
  for (const StepResult& result : trainer.run(batches)) {
    told.numbers.push_back(result.loss);
    told.numbers.push_back(result.gradient_norm);
  }
  told.numbers.push_back(trainer.evaluate(random_batch(run.config, 99)));
  trainer.each_weight(
      [&](const std::string& name, const HostTensor& weight) { told.weights[name] = weight; });
  return told;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

uint64_t seed() {
  const char* const given = std::getenv("FRUGAL_SEED");
  return given == nullptr ? 20261125 : std::strtoull(given, nullptr, 10);
}

class Losses : public ::testing::TestWithParam<int> {};

TEST_P(Losses, OfProcessesAreThoseOfThreads) {
  const Drawn run = draw(seed(), GetParam());
  if (world().rank() == 0)
    fmt::print("seed {}, number {}: {}\n", seed(), GetParam(), text_of(run.config));
  Told of_processes;
  {
    const auto cluster = make_cpu_process_cluster(run.config, world(), groups(), 1, 1 << 30);
    of_processes = train(*cluster, run);
  }
  if (world().rank() == 0) {  // the others wait for it at the next test's beginning
    const auto cluster = make_cpu_cluster(run.config, world().size());
    const Told of_threads = train(*cluster, run);
    EXPECT_TRUE(same_bits(of_processes.numbers, of_threads.numbers))
        << of_processes.numbers.front() << " " << of_threads.numbers.front();
    ASSERT_EQ(of_processes.weights.size(), of_threads.weights.size());
    for (const auto& [name, weight] : of_threads.weights)
      EXPECT_TRUE(same_bits(of_processes.weights.at(name).values, weight.values)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Drawn, Losses, ::testing::Range(0, 18));

}  // namespace
}  // namespace frugal::testing
