#include "engine/model/offloaded.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/comm/local.h"
#include "engine/model/gpt.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/late_device.h"
#include "tests/engine/support.h"

// Activations of layers in the host's memory: who computes with them waits until they have come,
// whose memory is used again waits until they have gone, and what they take on the device.
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
  const Tensor losses = model.forward(
      pass, {{}, on_device(batch.tokens), {on_device(batch.labels), 1}, turns}, saved);
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

/// Expects that a layer has so many tensors which go, and that the run computes the same.
void expect_waited_for(RunConfig c, int64_t tensors) {
  for (const bool turns : {false, true}) {
    testing::LateDevice late;
    c.offload = true;
    const std::vector<float> values = computed_on(late, c, turns);
    c.offload = false;
    CpuDevice cpu(1);
    EXPECT_EQ(values, computed_on(cpu, c, turns));
    // There and back; not where the backward pass takes the last layer's before anything else.
    EXPECT_EQ(late.transfers, 2 * tensors * (c.model.layers - (turns ? 1 : 0)));
  }
}

TEST(Offloaded, IsWaitedForHoweverLateItComes) { expect_waited_for(offloaded(), 1); }

/// Inputs and outputs of two norms, queries with keys and values, the context, and two of the MLP.
TEST(Offloaded, AllThatALayerKeepsIsWaitedFor) {
  RunConfig c = offloaded();
  c.recompute = Recompute::none;
  c.offload_modules = LayerModules::every();
  expect_waited_for(c, 8);
  c.model.bias = BiasKind::all;
  c.attention = AttentionKind::separate;
  expect_waited_for(c, 9);
  c.model.dropout = 0.1;
  c.stored_masks = true;
  expect_waited_for(c, 13);
}

/// Two memories go of a tensor, a part of it and another one; what comes back is shared as before.
TEST(Offloaded, WhatSharesMemoryGoesOnceAndSharesItAgain) {
  RunConfig c = offloaded();
  c.offload_modules = {LayerModule::mlp};
  testing::LateDevice device;
  LocalGroup alone(1);
  Activity activity;
  Rank rank(0, device, testing::alone_in_all(alone), c, activity);
  const Pass pass(rank);
  const auto numbers = [&](float first) {
    const Tensor tensor = rank.allocate(DType::f32, {4, 3});
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), first);
    device.copy_from_host(tensor, values.data());
    return tensor;
  };
  Tensor whole = numbers(1), part = whole.with_view(whole.view().sliced(0, 2, 2)),
         stays = numbers(20), other = numbers(40);
  const KeptTensors kept{{LayerModule::mlp, &part},
                         {LayerModule::activation, &whole},
                         {LayerModule::norm, &stays},
                         {LayerModule::mlp, &other}};
  Offloaded offloaded(Offloaded::Where::host);
  offloaded.store(pass, kept);
  EXPECT_TRUE(whole.empty() && part.empty() && other.empty());
  EXPECT_FALSE(stays.empty());
  EXPECT_EQ(rank.host.current(), 2 * 12 * 4);
  EXPECT_EQ(rank.ledger.current(), 3 * 12 * 4) << "until they have left";
  offloaded.restore(pass, kept);
  EXPECT_EQ(rank.host.current(), 0);
  EXPECT_EQ(rank.ledger.current(), 3 * 12 * 4);
  EXPECT_EQ(rank.ledger.current(Kind::activation), 2 * 12 * 4);
  EXPECT_TRUE(part.shares_memory_with(whole));
  EXPECT_FALSE(other.shares_memory_with(whole));
  EXPECT_EQ(static_cast<const float*>(part.view().data),
            static_cast<const float*>(whole.view().data) + 6);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(static_cast<const float*>(part.view().data)[5], 12);
  EXPECT_EQ(static_cast<const float*>(other.view().data)[0], 40);
  EXPECT_EQ(device.transfers, 4);
}

/// Bytes at the peak of a step's passes, in inputs of layers, [s, b, h]: those that the device
/// holds less, and those on the host.
std::pair<int64_t, int64_t> inputs_at_peak(RunConfig c) {
  const int64_t input = c.model.sequence * c.micro_batch * c.model.hidden * size_of(c.type);
  const auto peaks = [&c](bool offload) {
    c.offload = offload;
    const auto cluster = make_virtual_cluster(c, find_machine("a100-selene"));
    Trainer trainer(*cluster, c, {.optimizer = {.clip = 0}});
    Rank& rank = cluster->rank(0);
    rank.ledger.reset_peaks();
    trainer.warm_up(testing::empty_batch(c));
    return std::pair(rank.ledger.peak(), rank.host.peak());
  };
  const auto there = peaks(true), here = peaks(false);
  EXPECT_EQ((here.first - there.first) % input, 0);
  return {(here.first - there.first) / input, there.second / input};
}

/// A layer's backward pass has its input and the next one, a large head the last one beside it.
/// Where another microbatch comes between, all go to the host.
TEST(Offloaded, LeavesWhatTheNextPassesNeed) {
  RunConfig c = offloaded();
  const int64_t layers = c.model.layers;
  EXPECT_EQ(inputs_at_peak(c), std::pair(layers - 2, layers - 1));
  c.model.vocabulary = 8192;
  EXPECT_EQ(inputs_at_peak(c), std::pair(layers - 1, layers - 1));
  c.schedule = ScheduleKind::gpipe;
  c.microbatches = 2;
  EXPECT_EQ(inputs_at_peak(c), std::pair(2 * layers - 1, 2 * layers));
}

TEST(Offloaded, AnEvaluationLeavesNothing) {
  RunConfig c = offloaded();
  c.recompute = Recompute::none;
  c.offload_modules = LayerModules::every();
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
