#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// What of a layer's activations goes to the host's memory: a run with it is the one without it to
// the bit, and bytes are those of the formulas in docs/techniques.md.
namespace frugal::engine {
namespace {

using testing::small_bert;
using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::worst_error;

RunConfig offloading(RunConfig c, LayerModules modules) {
  c.offload = true;
  c.offload_modules = modules;
  return c;
}

FRUGAL_LEFT_OUT(thread, "OffloadModules.EverySetIsTheSameToTheBit", "one rank: one thread");
TEST(OffloadModules, EverySetIsTheSameToTheBit) {
  for (const auto model : {small_gpt, small_bert, small_llama, small_gemma})
    for (const Recompute recompute : {Recompute::none, Recompute::selective}) {
      RunConfig c = model();
      c.model.sequence = 16;
      c.micro_batch = 1;
      c.recompute = recompute;
      c.stored_masks = true;
      const MicroBatch batch = random_batch(c, 0)[0];
      const HostTensors expected = testing::snapshot_of(c, batch);
      for (const LayerModules modules : LayerModules::all_sets(c.kept_modules())) {
        const auto worst =
            worst_error(testing::snapshot_of(offloading(c, modules), batch), expected);
        EXPECT_EQ(worst.value, 0) << worst.tensor << ": " << name_of(modules);
      }
    }
}

RunConfig four_layers(const char* name, int64_t hidden, int64_t heads) {
  RunConfig c;
  c.model = {.name = name,
             .layers = 4,
             .hidden = hidden,
             .heads = heads,
             .sequence = 2048,
             .vocabulary = 51200};
  c.type = DType::bf16;
  c.stored_masks = true;
  return c;
}

RunConfig separate_22b() { return four_layers("22B", 6144, 64); }

RunConfig fused_22b() {
  RunConfig c = separate_22b();
  c.attention = AttentionKind::fused;
  return c;
}

RunConfig as_llama_8b() {
  RunConfig c = small_llama();
  c.type = DType::bf16;
  c.model.layers = 4;
  c.model.hidden = 4096;
  c.model.heads = 32;
  c.model.kv_heads = 8;
  c.model.intermediate = 14336;
  c.model.sequence = 8192;
  return c;
}

RunConfig as_gemma() {
  RunConfig c = as_llama_8b();
  c.model.post_norms = true;
  return c;
}

/// Bytes of a layer's modules on a rank in 16 bit, with stored masks: table 2 of korthikanti2022,
/// as docs/techniques.md divides it.
int64_t bytes_of_modules(const RunConfig& c, LayerModules modules) {
  using M = LayerModule;
  const ModelConfig& m = c.model;
  const int64_t tokens = m.sequence * c.micro_batch, t = c.tensor_parallel;
  const int64_t hidden = tokens * m.hidden / (c.sequence_parallel ? t : 1);
  const int64_t z = tokens * m.intermediate_size() / t, u = (is_gated(m.mlp) ? 2 : 1) * z;
  const int64_t scores = m.heads * m.sequence * m.sequence * c.micro_batch / t;
  const bool drops = m.dropout > 0, separate = c.attention == AttentionKind::separate;
  int64_t bytes = 0;
  if (modules.has(M::residual)) bytes += (m.post_norms ? 8 : 4) * hidden + (drops ? 2 * hidden : 0);
  if (modules.has(M::norm)) bytes += 4 * hidden;
  if (modules.has(M::projection)) bytes += 2 * tokens * m.qkv_size() / t;
  if (modules.has(M::core_attention))
    bytes += 2 * tokens * m.query_size() / t + (separate ? (drops ? 5 : 2) * scores : 0);
  if (modules.has(M::mlp)) bytes += 2 * u;
  if (modules.has(M::mlp) || modules.has(M::activation)) bytes += 2 * z;
  return bytes;
}

/// What a step's first forward pass has kept on the device of one rank, and what the host had.
struct OffloadedBytes {
  int64_t device = 0, host = 0, device_after = 0, host_after = 0;
};

OffloadedBytes offloaded_step(const RunConfig& c) {
  const auto cluster = make_virtual_cluster(c, find_machine("h200-hgx"));
  Trainer trainer(*cluster, c, {});
  const Rank& rank = cluster->rank(0);
  const int64_t before = rank.ledger.current(Kind::activation);
  (void)trainer.step(Batch(static_cast<size_t>(c.batch_microbatches())));
  OffloadedBytes bytes{.host = rank.host.peak(),
                       .device_after = rank.ledger.current(Kind::activation) - before,
                       .host_after = rank.host.current()};
  for (const Held& held : *rank.ledger.kept_per_part()) bytes.device += held.bytes;
  return bytes;
}

/// A step of one microbatch needs the last layer's first, which stays on the device.
TEST(OffloadModules, TakesTheBytesOfTheFormulasFromTheDeviceToTheHost) {
  for (const auto model : {separate_22b, fused_22b, as_llama_8b, as_gemma})
    for (const int t : {1, 8}) {
      RunConfig c = model();
      c.tensor_parallel = t;
      c.sequence_parallel = t > 1;
      const OffloadedBytes none = offloaded_step(c);
      EXPECT_EQ(none.host, 0);
      for (const LayerModules modules : LayerModules::all_sets(c.kept_modules())) {
        SCOPED_TRACE(fmt::format("{} t {}: {}", c.model.name, t, name_of(modules)));
        RunConfig run = offloading(c, modules);
        const int64_t layer = bytes_of_modules(c, modules);
        const OffloadedBytes all = offloaded_step(run);
        EXPECT_EQ(none.device - all.device, (c.model.layers - 1) * layer);
        EXPECT_EQ(all.host, (c.model.layers - 1) * layer);
        EXPECT_EQ(all.device_after, 0);
        EXPECT_EQ(all.host_after, 0);
        run.offload_layers = 2;
        EXPECT_EQ(none.device - offloaded_step(run).device, 2 * layer);
        EXPECT_EQ(offloaded_step(run).host, 2 * layer);
      }
    }
}

/// All modules together are what korthikanti2022 counts of a layer, equation 2: s b h (10 + 24/t +
/// 5 a s / (h t)).
TEST(OffloadModules, AreAllOfALayersActivations) {
  RunConfig c = separate_22b();
  const int64_t t = c.tensor_parallel = 8;
  const ModelConfig& m = c.model;
  const int64_t sbh = m.sequence * c.micro_batch * m.hidden;
  EXPECT_EQ(bytes_of_modules(c, LayerModules::every()),
            10 * sbh + 24 * sbh / t + 5 * m.heads * m.sequence * m.sequence * c.micro_batch / t);
}

/// What is discarded, and made again in backward, is nowhere.
TEST(OffloadModules, WhatIsRecomputedIsNotKeptOnTheHost) {
  RunConfig c = as_llama_8b();
  const LayerModules discarded = {LayerModule::norm, LayerModule::mlp};
  c.recompute = Recompute::selective;
  c.recompute_modules = discarded;
  const int64_t layer = bytes_of_modules(c, LayerModules::every()) - bytes_of_modules(c, discarded);
  EXPECT_EQ(offloaded_step(offloading(c, LayerModules::every())).host,
            (c.model.layers - 1) * layer);
}

TEST(OffloadModules, WhatCannotBeIsRefusedByName) {
  using M = LayerModule;
  RunConfig c = offloading(small_gpt(), RunConfig::inputs);
  testing::expect_refused(
      c, "offload_modules is input and recompute is none, with which layers keep residual+");
  c.recompute = Recompute::stage;
  testing::expect_refused(c, "offload is on and recompute is stage");
  c.recompute = Recompute::full;
  c.validate();
  c.offload_modules = {};
  testing::expect_refused(c, "offload is on and offload_modules is empty");
  c.offload_modules = {M::norm, M::mlp};
  testing::expect_refused(
      c, "offload_modules is norm+mlp and recompute is full, with which layers keep input");
  c.recompute_layers = 1;
  c.validate();
  c = offloading(small_gpt(), {M::norm});
  c.recompute = Recompute::selective;
  c.recompute_modules = {M::norm};
  testing::expect_refused(c, "offload_modules is norm and recompute is selective");
  c = offloading(small_gpt(), {M::activation, M::mlp});
  c.mlp_chunks = 2;
  testing::expect_refused(c, "offload_modules is activation+mlp and recompute is none");
  c = small_gpt();
  c.offload_layers = 3;
  testing::expect_refused(
      c, "offload_layers is 3, which needs offload; set that, or drop offload_layers");
  c = small_gpt();
  c.offload_modules = {M::mlp};
  testing::expect_refused(c, "offload_modules is mlp, which needs offload");
  c = offloading(small_gpt(), {M::mlp});
  c.offload_layers = -1;
  testing::expect_refused(c, "offload_layers is -1; it must be from 1");
  c = small_gpt();
  c.recompute = Recompute::selective;
  c.recompute_modules = {M::residual};
  testing::expect_refused(c, "recompute_modules is residual; they must be among norm+projection+");
}

}  // namespace
}  // namespace frugal::engine
