#include "engine/model/checkpoint.h"

#include <gtest/gtest.h>

#include "engine/comm/local.h"
#include "engine/model/gpt.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/late_device.h"
#include "tests/engine/support.h"

// Inputs of layers in the host's memory: who computes with them waits until they have come, whose
// memory is used again waits until they have gone, and what they take on the device.
namespace frugal::engine {
namespace {

RunConfig offloaded() {
  RunConfig c = testing::small_llama();
  c.model.layers = 4;
  c.recompute = Recompute::full;
  c.offload = true;
  return c;
}

/// Loss and all gradients of a microbatch on a device. `turns` as Gpt::Input has it.
std::vector<float> computed_on(Device& device, const RunConfig& config, bool turns) {
  LocalGroup alone(1);
  Activity activity;
  Rank rank(0, device, testing::alone_in_all(alone), config, activity);
  Gpt model(rank);
  const MicroBatch batch = random_batch(config, 0)[0];
  const auto on_device = [&](const std::vector<int32_t>& values) {
    Tensor tensor = rank.allocate(DType::i32, {config.model.sequence, config.micro_batch});
    device.copy_from_host(tensor, values.data());
    return tensor;
  };
  const Pass pass(rank);
  Gpt::Saved saved;
  const Tensor losses =
      model.forward(pass, {{}, on_device(batch.tokens), on_device(batch.labels), 1, turns}, saved);
  model.backward(pass, {}, 1, std::move(saved));
  std::vector<View> views{losses};
  for (const Parameter* p : model.parameters()) views.push_back(p->grad());
  std::vector<float> all;
  for (const View& view : views) {
    std::vector<float> values(static_cast<size_t>(view.size()));
    device.copy_to_host(values.data(), view);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Checkpoint, IsWaitedForHoweverLateItComes) {
  RunConfig c = offloaded();
  for (const bool turns : {false, true}) {
    testing::LateDevice late;
    const std::vector<float> values = computed_on(late, c, turns);
    c.offload = false;
    CpuDevice cpu(1);
    EXPECT_EQ(values, computed_on(cpu, c, turns));
    c.offload = true;
    // There and back; not where the backward pass takes the last one before anything else.
    EXPECT_EQ(late.transfers, 2 * (c.model.layers - (turns ? 1 : 0)));
  }
}

/// Bytes at the peak of a step on a device, in its memory and in the host's.
struct Peaks {
  int64_t device = 0, host = 0;
};
Peaks peaks_of(const RunConfig& config) {
  const auto cluster = make_virtual_cluster(config, find_machine("a100-selene"));
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}});
  Rank& rank = cluster->rank(0);
  rank.ledger.reset_peaks();
  trainer.warm_up(Batch(static_cast<size_t>(config.batch_microbatches())));
  return {rank.ledger.peak(), rank.host.peak()};
}

/// What the device holds less, in inputs of layers, [s, b, h].
void expect_less(RunConfig config, int64_t inputs, int64_t on_host) {
  const Peaks there = peaks_of(config);
  config.offload = false;
  const Peaks here = peaks_of(config);
  const int64_t input =
      config.model.sequence * config.micro_batch * config.model.hidden * size_of(config.type);
  EXPECT_EQ(here.device - there.device, inputs * input);
  EXPECT_EQ(there.host, on_host * input);
}

TEST(Checkpoint, ALayersBackwardPassHasItsInputAndTheNextOne) {
  const RunConfig c = offloaded();
  expect_less(c, c.model.layers - 2, c.model.layers - 1);
}

TEST(Checkpoint, TheHeadHasTheLastOneBesideIt) {
  RunConfig c = offloaded();
  c.model.vocabulary = 8192;
  expect_less(c, c.model.layers - 1, c.model.layers - 1);
}

/// Another microbatch comes between: all go to the host.
TEST(Checkpoint, WhatIsNotTakenSoonGoes) {
  RunConfig c = offloaded();
  c.schedule = ScheduleKind::gpipe;
  c.microbatches = 2;
  c.model.vocabulary = 8192;
  expect_less(c, 2 * c.model.layers - 1, 2 * c.model.layers);
}

TEST(Checkpoint, AnEvaluationLeavesNothing) {
  const RunConfig c = offloaded();
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  Rank& rank = cluster->rank(0);
  const int64_t before = rank.ledger.current();
  rank.host.reset_peaks();
  (void)trainer.evaluate(random_batch(c, 0));
  EXPECT_EQ(rank.ledger.current(), before);
  EXPECT_EQ(rank.host.peak(), 0);
}

}  // namespace
}  // namespace frugal::engine
