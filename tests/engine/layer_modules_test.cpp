#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/train/module_run.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Modules of a layer whose activations go to the host's memory, or are discarded and made again: a
// run with them is the one without them to the bit, and bytes and FLOPs are those of the formulas
// in docs/techniques.md.
namespace frugal::engine {
namespace {

using M = LayerModule;
using testing::counted_steps;
using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;
using testing::snapshot_of;
using testing::worst_error;

RunConfig offloading(RunConfig c, LayerModules modules) {
  c.offload = true;
  c.offload_modules = modules;
  return c;
}

RunConfig recomputing(RunConfig c, LayerModules modules) {
  c.recompute = Recompute::selective;
  c.recompute_modules = modules;
  return c;
}

/// Sets that a search tries, and some with parts of these: `up` for a gated MLP, and the inputs of
/// the MLP's norm where blocks have no norms behind them.
std::vector<LayerModules> recomputed_sets(const RunConfig& c) {
  std::vector<LayerModules> sets = LayerModules::all_sets(LayerModules::searched);
  std::vector<LayerModules> parts = {{M::keys}, {M::projection, M::keys}};
  if (is_gated(c.model.mlp)) parts.insert(parts.end(), {{M::up}, {M::norm, M::activation, M::up}});
  if (!c.model.post_norms) {
    parts.push_back({M::attention_output});
    for (LayerModules set : std::vector(parts)) {
      set.add(M::attention_output);
      parts.push_back(set);
      set.add(M::core_attention);
      parts.push_back(set);
    }
    if (is_gated(c.model.mlp))
      parts.insert(parts.end(), {{M::norm, M::activation, M::up, M::keys, M::attention_output},
                                 LayerModules::recomputable});
  }
  sets.insert(sets.end(), parts.begin(), parts.end());
  return sets;
}

RunConfig in_16_bits(RunConfig c) {
  c.model.layers = 4;
  c.type = DType::bf16;
  c.stored_masks = true;
  return c;
}

RunConfig gpt_22b() {
  RunConfig c;
  c.model = {.name = "22B", .hidden = 6144, .heads = 64, .sequence = 2048, .vocabulary = 51200};
  return in_16_bits(c);
}

RunConfig fused_22b() {
  RunConfig c = gpt_22b();
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
  return in_16_bits(c);
}

RunConfig with_post_norms() {
  RunConfig c = llama_8b();
  c.model.post_norms = true;
  return c;
}

/// Elements on a rank, of one layer.
struct LayerElements {
  explicit LayerElements(const RunConfig& c)
      : tokens(c.model.sequence * c.micro_batch),
        local(tokens / (c.sequence_parallel ? c.tensor_parallel : 1)),
        hidden(local * c.model.hidden),
        qkv(tokens * c.model.qkv_size() / c.tensor_parallel),
        context(tokens * c.model.query_size() / c.tensor_parallel),
        keys((qkv - context) / 2),
        z(tokens * c.model.intermediate_size() / c.tensor_parallel),
        u((is_gated(c.model.mlp) ? 2 : 1) * z),
        scores(c.model.heads * c.model.sequence * tokens / c.tensor_parallel) {}

  int64_t tokens, local, hidden, qkv, context, keys, z, u, scores;
};

/// Bytes of a layer's modules on a rank in 16 bit, with stored masks: table 2 of korthikanti2022,
/// as docs/techniques.md divides it.
int64_t bytes_of_modules(const RunConfig& c, LayerModules modules) {
  const ModelConfig& m = c.model;
  const LayerElements n(c);
  const bool drops = m.dropout > 0, separate = c.attention == AttentionKind::separate;
  int64_t bytes = 0;
  if (modules.has(M::residual))
    bytes += (m.post_norms ? 8 : 4) * n.hidden + (drops ? 2 * n.hidden : 0);
  else if (modules.has(M::attention_output))
    bytes += 2 * n.hidden;
  if (modules.has(M::norm)) bytes += 4 * n.hidden;
  if (modules.has(M::projection))
    bytes += 2 * n.qkv;
  else if (modules.has(M::keys))
    bytes += 2 * n.keys;
  if (modules.has(M::core_attention))
    bytes += 2 * n.context + (separate ? (drops ? 5 : 2) * n.scores : 0);
  if (modules.has(M::mlp))
    bytes += 2 * n.u;
  else if (modules.has(M::up))
    bytes += 2 * n.z;
  if (modules.has(M::mlp) || modules.has(M::activation)) bytes += 2 * n.z;
  return bytes;
}

/// Bytes that a layer keeps which makes modules again. The context of separate attention stays.
int64_t bytes_kept(const RunConfig& c) {
  const LayerModules again = c.recompute_modules;
  const bool context = again.has(M::core_attention) && c.attention == AttentionKind::separate;
  return bytes_of_modules(c, LayerModules::every()) - bytes_of_modules(c, again) +
         (context ? 2 * LayerElements(c).context : 0);
}

int64_t statistics_kept(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const LayerElements n(c);
  const bool sums =
      c.attention == AttentionKind::fused && !c.recompute_modules.has(M::core_attention);
  return (m.positions == PositionKind::rotary ? 4 * m.head_size() / 2 : 0) +
         2 * (m.norm == NormKind::layer ? 2 : 1) * 4 * n.local +
         (sums ? 4 * m.heads * n.tokens / c.tensor_parallel : 0);
}

/// FLOPs of the products that a layer's backward pass makes again.
double flops_again(const RunConfig& c) {
  const ModelConfig& m = c.model;
  const LayerModules again = c.recompute_modules;
  const LayerElements n(c);
  const auto h = static_cast<double>(m.hidden), s = static_cast<double>(m.sequence);
  const bool half = c.attention == AttentionKind::fused && m.causal;
  const double seen = half ? (s + 1) / 2 : s;  // by a token, on average
  double flops = 0;
  if (again.has(M::projection))
    flops += 2 * h * static_cast<double>(n.qkv);
  else if (again.has(M::keys))
    flops += 2 * h * static_cast<double>(n.keys);
  if (again.has(M::attention_output)) flops += 2 * h * static_cast<double>(n.context);
  if (again.has(M::core_attention)) flops += 4 * seen * static_cast<double>(n.context);
  if (again.has(M::mlp))
    flops += 2 * h * static_cast<double>(n.u);
  else if (again.has(M::up))
    flops += 2 * h * static_cast<double>(n.z);
  return flops;
}

FRUGAL_LEFT_OUT(thread, "LayerModules.EverySetIsTheSameToTheBit", "one rank: one thread");
TEST(LayerModules, EverySetIsTheSameToTheBit) {
  RunConfig masks = small_gpt(), narrow = small_gemma();
  masks.stored_masks = true;
  narrow.type = DType::bf16;
  for (const RunConfig& c : {masks, narrow}) {
    const MicroBatch batch = random_batch(c, 0)[0];
    const HostTensors expected = snapshot_of(c, batch);
    std::vector<RunConfig> runs;
    for (const LayerModules modules : LayerModules::all_sets(c.kept_modules()))
      runs.push_back(offloading(c, modules));
    for (const LayerModules modules : recomputed_sets(c)) runs.push_back(recomputing(c, modules));
    for (const RunConfig& run : runs) {
      const auto worst = worst_error(snapshot_of(run, batch), expected);
      EXPECT_EQ(worst.value, 0) << worst.tensor << ": " << name_of(run.recompute) << " "
                                << name_of(run.recompute_modules) << " "
                                << name_of(run.offload_modules);
    }
  }
}

/// Bytes that a step's first forward pass has kept on the device of one rank, and the host's peak.
struct OffloadedBytes {
  int64_t device = 0, host = 0;
};

OffloadedBytes offloaded_step(const RunConfig& c) {
  const auto cluster = counted_steps(c);
  const Rank& rank = cluster->rank(0);
  EXPECT_EQ(rank.ledger.current(Kind::activation), 0);
  EXPECT_EQ(rank.host.current(), 0);
  OffloadedBytes bytes{.host = rank.host.peak()};
  for (const Held& held : *rank.ledger.kept_per_part()) bytes.device += held.bytes;
  return bytes;
}

/// A step of one microbatch needs the last layer's first, which stays on the device.
TEST(OffloadModules, TakesTheBytesOfTheFormulasFromTheDeviceToTheHost) {
  for (const auto model : {gpt_22b, fused_22b, llama_8b, with_post_norms})
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
        for (const int64_t layers : {c.model.layers - 1, int64_t{2}}) {
          const OffloadedBytes some = offloaded_step(run);
          EXPECT_EQ(none.device - some.device, layers * layer);
          EXPECT_EQ(some.host, layers * layer);
          run.offload_layers = 2;
        }
      }
    }
}

/// All modules together are what korthikanti2022 counts of a layer, equation 2: s b h (10 + 24/t +
/// 5 a s / (h t)).
TEST(OffloadModules, AreAllOfALayersActivations) {
  RunConfig c = gpt_22b();
  const int64_t t = c.tensor_parallel = 8;
  const ModelConfig& m = c.model;
  const int64_t sbh = m.sequence * c.micro_batch * m.hidden;
  EXPECT_EQ(bytes_of_modules(c, LayerModules::every()),
            10 * sbh + 24 * sbh / t + 5 * m.heads * m.sequence * m.sequence * c.micro_batch / t);
}

/// Outputs that are discarded, and made again in backward, are nowhere.
TEST(OffloadModules, WhatIsRecomputedIsNotKeptOnTheHost) {
  const RunConfig c = recomputing(llama_8b(), {M::norm, M::mlp});
  EXPECT_EQ(offloaded_step(offloading(c, LayerModules::every())).host,
            (c.model.layers - 1) * bytes_kept(c));
}

TEST(OffloadModules, WhatCannotBeIsRefusedByName) {
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
  testing::expect_refused(recomputing(offloading(small_gpt(), {M::norm}), {M::norm}),
                          "offload_modules is norm and recompute is selective");
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
  testing::expect_refused(recomputing(small_gpt(), {M::residual}),
                          "recompute_modules is residual; they must be among norm+projection+");
}

TEST(RecomputeModules, KeepsTheBytesAndMakesTheFlopsOfTheFormulas) {
  const auto memory_of = [](const RunConfig& run) {
    run.validate();
    return ModuleRun(*make_virtual_cluster(run, find_machine("h200-hgx"))).memory();
  };
  for (const auto model : {gpt_22b, fused_22b, llama_8b})
    for (const auto& [t, sequence] : {std::pair{1, false}, {8, false}, {8, true}}) {
      RunConfig c = model();
      c.micro_batch = 3;
      c.tensor_parallel = t;
      c.sequence_parallel = sequence;
      const double backward = memory_of(c).backward_flops;
      for (const LayerModules modules : recomputed_sets(c)) {
        SCOPED_TRACE(fmt::format("{} t {} {}: {}", c.model.name, t, sequence, name_of(modules)));
        const RunConfig run = recomputing(c, modules);
        const ModuleMemory memory = memory_of(run);
        EXPECT_EQ(memory.after_forward[static_cast<size_t>(Kind::activation)], bytes_kept(run));
        EXPECT_EQ(memory.after_forward[static_cast<size_t>(Kind::statistics)],
                  statistics_kept(run));
        EXPECT_EQ(memory.backward_flops - backward, flops_again(run));
      }
    }
}

/// FLOPs of a step: those of each layer that is recomputed, and each microbatch.
TEST(RecomputeModules, AStepsFlopsAreThoseOfItsLayers) {
  RunConfig c = small_llama();
  c.model.layers = 4;
  c.microbatches = 3;
  const auto flops_of = [](const RunConfig& run) {
    const auto cluster = make_virtual_cluster(run, find_machine("h100-dgx"));
    return Trainer(*cluster, run, {}).step(Batch(3)).flops;
  };
  const double none = flops_of(c);
  for (const LayerModules modules : recomputed_sets(c))
    for (const int64_t layers : {0, 1, 3}) {
      RunConfig run = recomputing(c, modules);
      run.recompute_layers = layers;
      const auto recomputed = static_cast<double>(layers == 0 ? 4 : layers);
      EXPECT_EQ(flops_of(run) - none, recomputed * 3 * flops_again(run))
          << name_of(modules) << " of " << layers;
    }
}

TEST(RecomputeModules, AreNamed) {
  for (const LayerModules modules : recomputed_sets(small_llama()))
    EXPECT_EQ(layer_modules(name_of(modules), LayerModules::recomputable), modules);
  EXPECT_EQ(layer_modules("mlp+norm"), (LayerModules{M::norm, M::mlp}));
  for (const char* text : {"", "+", "norm+", "norm+norm", "nor", "norm,mlp"})
    EXPECT_EQ(layer_modules(text), std::nullopt) << text;
  EXPECT_EQ(LayerModules::all_sets(LayerModules::searched).size(), 31U);
}

TEST(RecomputeModules, WhatCannotBeIsRefusedByName) {
  testing::expect_refused(recomputing(small_gpt(), {}),
                          "recompute is selective and recompute_modules is empty");
  testing::expect_refused(recomputing(small_gpt(), {M::up}),
                          "recompute_modules is up, and the model's");
  testing::expect_refused(recomputing(small_gemma(), {M::attention_output}),
                          "recompute_modules has attention-output, and the model has norms");
  RunConfig shared = recomputing(small_llama(), {M::keys});
  shared.attention = AttentionKind::fused;
  shared.context_parallel = 2;
  shared.context = ContextKind::ulysses;
  testing::expect_refused(shared, "recompute_modules has keys, and ranks exchange heads");
  RunConfig c = recomputing(small_gpt(), {M::norm, M::mlp});
  c.recompute = Recompute::full;
  testing::expect_refused(c, "recompute_modules is norm+mlp, which needs recompute=selective");
}

}  // namespace
}  // namespace frugal::engine
