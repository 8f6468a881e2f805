#include "harness/measure/runs/step_operations.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "engine/train/trainer.h"
#include "harness/measure/statistics.h"
#include "kernels/virtual/machine.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using Operations = std::vector<std::vector<AlikeOperations>>;

RunConfig two_stages() {
  RunConfig config = testing::tiny();
  config.model.layers = 2;
  config.pipeline_parallel = 2;
  config.microbatches = 3;
  return config;
}

Batch absent_tokens(const RunConfig& config) {
  return Batch(static_cast<size_t>(config.batch_microbatches()));
}

double seconds_of(const std::vector<AlikeOperations>& operations, int64_t steps) {
  double sum = 0;
  for (const AlikeOperations& alike : operations) sum += alike.seconds_of_step(steps);
  return sum;
}

/// By their first word.
double count_of(const std::vector<AlikeOperations>& operations, const std::string& name,
                int64_t steps) {
  double count = 0;
  for (const AlikeOperations& alike : operations)
    if (alike.form.starts_with(name + " "))
      count += static_cast<double>(alike.seconds.size()) / static_cast<double>(steps);
  return count;
}

TEST(StepOperations, AreAllThatTheStepMakes) {
  const RunConfig config = two_stages();
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, {});
  StepOperations timed(*cluster);
  trainer.warm_up(random_batch(config, 0));
  timed.time(true);
  constexpr int64_t steps = 4;
  for (int64_t i = 0; i < steps; ++i) trainer.step(random_batch(config, i));
  const Operations stages = timed.of_steps(steps);
  ASSERT_EQ(stages.size(), 2U);
  const StepWork& work = trainer.work();
  const auto& operations = stages.at(static_cast<size_t>(work.stage));
  Cost cost;
  for (const AlikeOperations& alike : operations) {
    const double count = static_cast<double>(alike.seconds.size()) / steps;
    cost.flops += count * alike.cost.flops;
    cost.bytes += count * alike.cost.bytes;
    EXPECT_GE(*std::min_element(alike.seconds.begin(), alike.seconds.end()), 0) << alike.form;
  }
  EXPECT_GT(seconds_of(operations, steps), 0);
  double bytes = 0;  // but for messages, which are no operations of the compute stream
  for (size_t i = 0; i < DeviceWork::kinds; ++i) {
    const std::string name(DeviceWork::names.at(i));
    if (name == "transfer") continue;
    bytes += work.done.operations.at(i).cost.bytes;
    EXPECT_EQ(count_of(operations, name, steps), work.done.operations.at(i).count) << name;
  }
  EXPECT_EQ(cost.flops, work.done.total().cost.flops);
  EXPECT_EQ(cost.bytes, bytes);
}

/// tiny(): h 16, two heads, s 8, b 1. Scores are a product for each head.
TEST(StepOperations, KnowTheirProductsSizes) {
  const RunConfig config = testing::tiny();
  const auto cluster = make_cpu_cluster(config, 1);
  Trainer trainer(*cluster, config, {});
  StepOperations timed(*cluster);
  timed.time(true);
  trainer.step(random_batch(config, 0));
  std::set<std::array<int64_t, 4>> sizes;
  const Operations stages = timed.of_steps(1);
  for (const AlikeOperations& alike : stages.front()) {
    const auto& [batch, m, n, k] = alike.product;
    sizes.insert(alike.product);
    if (batch > 0)
      EXPECT_EQ(alike.cost.flops, 2.0 * static_cast<double>(batch * m * n * k)) << alike.form;
    else
      EXPECT_EQ(alike.cost.flops, 0) << alike.form;
  }
  EXPECT_THAT(sizes, ::testing::IsSupersetOf(std::vector<std::array<int64_t, 4>>{
                         {1, 8, 48, 16}, {1, 8, 64, 16}, {2, 8, 8, 8}, {1, 8, 32, 16}}));
}

/// A device that is never idle but for the first launch: one operation after the other they take
/// what the step takes, and a step that is timed takes what another does.
TEST(StepOperations, AddUpToAVirtualStep) {
  const RunConfig config = testing::tiny();
  Machine machine = find_machine("a100-selene");
  machine.launch_overhead = 0;
  const auto cluster = make_virtual_cluster(config, machine);
  Trainer trainer(*cluster, config, {});
  StepOperations timed(*cluster);
  const double plain = trainer.step(absent_tokens(config)).seconds;
  timed.time(true);
  const double seconds = trainer.step(absent_tokens(config)).seconds;
  EXPECT_NEAR(seconds / plain, 1, 1e-9);
  EXPECT_NEAR(seconds_of(timed.of_steps(1).front(), 1) / seconds, 1, 1e-9);
}

/// What is launched late waits for the host, and is not charged for that.
TEST(StepOperations, LeaveOutWhatTheDeviceWaitsFor) {
  const RunConfig config = testing::tiny();
  const auto of = [&](double launch) {
    Machine machine = find_machine("a100-selene");
    machine.launch_overhead = launch;
    const auto cluster = make_virtual_cluster(config, machine);
    Trainer trainer(*cluster, config, {});
    StepOperations timed(*cluster);
    timed.time(true);
    const double step = trainer.step(absent_tokens(config)).seconds;
    return std::pair(step, seconds_of(timed.of_steps(1).front(), 1));
  };
  const auto [fast_step, fast] = of(0);
  const auto [slow_step, slow] = of(1e-3);
  EXPECT_NEAR(slow / fast, 1, 1e-9);
  EXPECT_GT(slow_step, 10 * fast_step);
}

TEST(StepOperations, EndWithTheTimer) {
  const RunConfig config = testing::tiny();
  const auto cluster = make_cpu_cluster(config, 1);
  Trainer trainer(*cluster, config, {});
  StepOperations timed(*cluster);
  for (const bool on : {true, false, true, false}) {
    timed.time(on);
    trainer.step(random_batch(config, 0));
  }
  size_t count = 0;
  const Operations stages = timed.of_steps(2);
  for (const AlikeOperations& alike : stages.front()) count += alike.seconds.size();
  EXPECT_EQ(static_cast<double>(count), 2 * trainer.work().done.total().count);
}

TEST(StepOperations, TakeTheMedianOfWhatTheyTook) {
  AlikeOperations product{"gemm f32", {1, 2, 3, 4}, {48, 104}, {1e-9, 9e-9, 2e-9, 2e-9}};
  EXPECT_DOUBLE_EQ(product.seconds_of_step(2), 4e-9);
  AlikeOperations other{"gelu f32", {}, {0, 64}, {1e-9, 1e-9}};
  const nlohmann::json json = to_json(Operations{{product}, {other}}, 2);
  EXPECT_EQ(json.at(1).at("stage"), 1);
  EXPECT_EQ(json.at(0).at("operations").at(0).at("product"), (std::array{1, 2, 3, 4}));
  EXPECT_TRUE(json.at(1).at("operations").at(0).at("product").is_null());
  EXPECT_EQ(json.at(0).at("operations").at(0).at("seconds").size(), 4U);
}

}  // namespace
}  // namespace frugal::harness
