#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/train/module_run.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Recomputation by module: every set is the run that keeps all, keeps as many bytes as its formula
// says, and executes as many FLOPs.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::worst_error;

RunConfig small_fused_gpt() {
  RunConfig c = small_gpt();
  c.attention = AttentionKind::fused;
  return c;
}

RunConfig recomputing(RunConfig c, LayerModules modules) {
  c.recompute = Recompute::selective;
  c.recompute_modules = modules;
  return c;
}

/// Sets that a search tries; for a gated MLP also some with `up`.
std::vector<LayerModules> sets_of(const RunConfig& c) {
  using M = LayerModule;
  std::vector<LayerModules> sets = LayerModules::all_sets(LayerModules::searched);
  if (is_gated(c.model.mlp))
    sets.insert(sets.end(), {{M::up}, {M::norm, M::activation, M::up}, LayerModules::recomputable});
  return sets;
}

FRUGAL_LEFT_OUT(thread, "RecomputeModules.IsTheSameToTheBit", "one rank: one thread");
TEST(RecomputeModules, IsTheSameToTheBit) {
  RunConfig masks = small_gpt(), narrow = small_llama();
  masks.stored_masks = true;
  narrow.type = DType::bf16;
  for (const RunConfig& c : {masks, small_fused_gpt(), narrow, small_gemma()}) {
    const MicroBatch batch = random_batch(c, 0)[0];
    const HostTensors expected = testing::snapshot_of(c, batch);
    for (const LayerModules modules : sets_of(c)) {
      const auto worst =
          worst_error(testing::snapshot_of(recomputing(c, modules), batch), expected);
      EXPECT_EQ(worst.value, 0) << worst.tensor << ": " << name_of(modules);
    }
  }
}

/// Bytes that a layer keeps on one rank in 16 bit, with stored masks, and the FLOPs of the products
/// that its backward pass makes again.
struct Costs {
  int64_t activations = 0, statistics = 0;
  double flops = 0;
};

/// docs/techniques.md has these formulas in units of s b h / t.
Costs costs_of(const RunConfig& c, LayerModules modules) {
  using M = LayerModule;
  const ModelConfig& m = c.model;
  const int64_t tokens = m.sequence * c.micro_batch, t = c.tensor_parallel;
  const int64_t local = tokens / (c.sequence_parallel ? t : 1);
  const bool drops = m.dropout > 0, gated = is_gated(m.mlp),
             fused = c.attention == AttentionKind::fused;
  const int64_t mask = drops ? local * m.hidden : 0;
  const int64_t scores = m.heads * m.sequence * m.sequence * c.micro_batch / t;
  const int64_t qkv = tokens * m.qkv_size() / t, context = tokens * m.query_size() / t;
  const int64_t z = tokens * m.intermediate_size() / t, u = (gated ? 2 : 1) * z;
  const auto kept = [&](bool discarded, int64_t bytes) { return discarded ? 0 : bytes; };
  const bool core = modules.has(M::core_attention), mlp = modules.has(M::mlp);

  Costs costs;
  costs.activations = 4 * local * m.hidden + 2 * mask;  // inputs of norms
  costs.activations += kept(modules.has(M::norm), 4 * local * m.hidden);
  costs.activations += kept(modules.has(M::projection), 2 * qkv);
  costs.activations += kept(core && fused, 2 * context);
  costs.activations += kept(core || fused, (drops ? 5 : 2) * scores);
  const bool up = modules.has(M::up) && !mlp;
  costs.activations += kept(mlp, 2 * (up ? z : u));
  costs.activations += kept(mlp || modules.has(M::activation), 2 * z);
  if (m.positions == PositionKind::rotary) costs.statistics = 4 * m.head_size() / 2;
  costs.statistics += 2 * (m.norm == NormKind::layer ? 2 : 1) * 4 * local +
                      kept(core || !fused, 4 * m.heads * tokens / t);

  const auto h = static_cast<double>(m.hidden), s = static_cast<double>(m.sequence);
  const double seen = fused && m.causal ? (s + 1) / 2 : s;  // by a token, on average
  if (modules.has(M::projection)) costs.flops += 2 * h * static_cast<double>(qkv);
  if (core) costs.flops += 4 * seen * static_cast<double>(context);
  if (mlp) costs.flops += 2 * h * static_cast<double>(u);
  if (up) costs.flops += 2 * h * static_cast<double>(z);
  return costs;
}

RunConfig gpt_175b() {
  RunConfig c;
  c.model = {.name = "175B",
             .layers = 96,
             .hidden = 12288,
             .heads = 96,
             .sequence = 2048,
             .vocabulary = 51200};
  return c;
}

RunConfig fused_175b() {
  RunConfig c = gpt_175b();
  c.attention = AttentionKind::fused;
  return c;
}

RunConfig llama_8b() {
  RunConfig c = small_llama();
  c.model.hidden = 4096;
  c.model.heads = 32;
  c.model.kv_heads = 8;
  c.model.intermediate = 14336;
  c.model.sequence = 8192;
  c.micro_batch = 3;
  return c;
}

void expect_formulas(RunConfig c) {
  c.type = DType::bf16;
  c.stored_masks = true;
  const auto memory_of = [](const RunConfig& run) {
    run.validate();
    return ModuleRun(*make_virtual_cluster(run, find_machine("h200-hgx"))).memory();
  };
  const double backward = memory_of(c).backward_flops;
  for (const LayerModules modules : sets_of(c)) {
    SCOPED_TRACE(name_of(modules));
    const RunConfig run = recomputing(c, modules);
    const ModuleMemory memory = memory_of(run);
    const Costs costs = costs_of(run, modules);
    EXPECT_EQ(memory.after_forward[static_cast<size_t>(Kind::activation)], costs.activations);
    EXPECT_EQ(memory.after_forward[static_cast<size_t>(Kind::statistics)], costs.statistics);
    EXPECT_EQ(memory.backward_flops - backward, costs.flops);
  }
}

TEST(RecomputeModules, KeepsTheBytesAndMakesTheFlopsOfTheFormulas) {
  for (const auto model : {gpt_175b, fused_175b, llama_8b})
    for (const int t : {1, 8})
      for (const bool sequence : {false, true}) {
        if (t == 1 && sequence) continue;
        RunConfig c = model();
        c.tensor_parallel = t;
        c.sequence_parallel = sequence;
        SCOPED_TRACE(fmt::format("{} t {} {}", c.model.name, t, sequence));
        expect_formulas(c);
      }
}

/// Of a step: what is recomputed in each layer that is, and each microbatch.
TEST(RecomputeModules, AStepsFlopsAreThoseOfItsLayers) {
  RunConfig c = small_llama();
  c.model.layers = 4;
  c.microbatches = 3;
  const auto flops_of = [](const RunConfig& run) {
    const auto cluster = make_virtual_cluster(run, find_machine("h100-dgx"));
    return Trainer(*cluster, run, {}).step(Batch(3)).flops;
  };
  const double none = flops_of(c);
  for (const LayerModules modules : sets_of(c))
    for (const int64_t layers : {0, 1, 3}) {
      RunConfig run = recomputing(c, modules);
      run.recompute_layers = layers;
      const auto recomputed = static_cast<double>(layers == 0 ? 4 : layers);
      EXPECT_EQ(flops_of(run) - none, recomputed * 3 * costs_of(run, modules).flops)
          << name_of(modules) << " of " << layers;
    }
}

TEST(RecomputeModules, SelectiveRecomputationIsThatOfTheCores) {
  EXPECT_EQ(RunConfig().recompute_modules, LayerModules{LayerModule::core_attention});
  EXPECT_EQ(LayerModules::all_sets(LayerModules::searched).size(), 31U);
}

TEST(RecomputeModules, AreNamed) {
  for (const LayerModules modules : sets_of(small_llama()))
    EXPECT_EQ(layer_modules(name_of(modules), LayerModules::recomputable), modules);
  EXPECT_EQ(layer_modules("mlp+norm"), (LayerModules{LayerModule::norm, LayerModule::mlp}));
  for (const char* text : {"", "+", "norm+", "norm+norm", "nor", "norm,mlp"})
    EXPECT_EQ(layer_modules(text), std::nullopt) << text;
}

TEST(RecomputeModules, WhatCannotBeIsRefusedByName) {
  RunConfig c = recomputing(small_gpt(), {});
  testing::expect_refused(c, "recompute is selective and recompute_modules is empty");
  c = recomputing(small_gpt(), {LayerModule::norm, LayerModule::mlp});
  for (const Recompute other : {Recompute::none, Recompute::full, Recompute::stage}) {
    c.recompute = other;
    testing::expect_refused(c, "recompute_modules is norm+mlp, which needs recompute=selective");
  }
  testing::expect_refused(recomputing(small_gpt(), {LayerModule::up}),
                          "recompute_modules is up, and the model's");
}

}  // namespace
}  // namespace frugal::engine
