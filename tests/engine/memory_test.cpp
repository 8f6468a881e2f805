#include <gtest/gtest.h>

#include "engine/train/module_run.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"

// Table 2 of korthikanti2022, from the ledger: the formula is the oracle, to the byte.
namespace frugal::engine {
namespace {

struct Row {
  const char* name;
  int t;
  bool sequence_parallel;
  Recompute recompute;
  /// Bytes in units of sbh, times t, without and with as/h.
  int64_t fixed_times_t, attention_times_t;
  AttentionKind attention = AttentionKind::separate;
};

constexpr int t8 = 8;
const Row rows[] = {
    {"no parallelism", 1, false, Recompute::none, 34, 5},
    {"tensor parallel", t8, false, Recompute::none, 10 * t8 + 24, 5},
    {"tensor + sequence parallel", t8, true, Recompute::none, 34, 5},
    {"tensor parallel + selective", t8, false, Recompute::selective, 10 * t8 + 24, 0},
    {"tensor + sequence parallel + selective", t8, true, Recompute::selective, 34, 0},
    {"full recompute", t8, false, Recompute::full, 2 * t8, 0},
    // Not the paper's: what selective recomputation leaves, without recomputation by the model.
    {"tensor parallel, fused", t8, false, Recompute::none, 10 * t8 + 24, 0, AttentionKind::fused},
    {"tensor + sequence parallel, fused", t8, true, Recompute::none, 34, 0, AttentionKind::fused},
    {"full recompute, fused", t8, false, Recompute::full, 2 * t8, 0, AttentionKind::fused},
};

int64_t expected_bytes(const Row& row, const RunConfig& c) {
  const ModelConfig& m = c.model;
  const int64_t sbh = m.sequence * c.micro_batch * m.hidden;
  const int64_t core = m.heads * m.sequence * m.sequence * c.micro_batch;
  return (row.fixed_times_t * sbh + row.attention_times_t * core) / row.t;
}

RunConfig config_of(const Row& row, const ModelConfig& model, int64_t micro_batch) {
  RunConfig c;
  c.model = model;
  c.tensor_parallel = row.t;
  c.sequence_parallel = row.sequence_parallel;
  c.recompute = row.recompute;
  c.attention = row.attention;
  c.stored_masks = true;
  c.type = DType::bf16;
  c.micro_batch = micro_batch;
  c.validate();
  return c;
}

void expect_formula(const Row& row, const RunConfig& c, Cluster& cluster) {
  const ModuleMemory memory = ModuleRun(cluster).memory();
  const auto held = [&](Kind kind) { return memory.after_forward[static_cast<size_t>(kind)]; };
  EXPECT_EQ(held(Kind::activation), expected_bytes(row, c)) << row.name;
  int64_t of_parts = 0;
  for (const Held& part : memory.kept) of_parts += part.bytes;
  EXPECT_EQ(of_parts, held(Kind::activation) + held(Kind::statistics)) << row.name;
  // Mean and deviation of the two norms, 4 bytes each per local row; full recomputation keeps none.
  const int64_t local_rows =
      c.micro_batch * c.model.sequence / (c.sequence_parallel ? c.tensor_parallel : 1);
  // Fused attention's logarithmic sums: 4 bytes per token and local head.
  const int64_t sums = c.attention == AttentionKind::fused ? 4 * c.micro_batch * c.model.sequence *
                                                                 c.model.heads / c.tensor_parallel
                                                           : 0;
  EXPECT_EQ(held(Kind::statistics), c.recompute == Recompute::full ? 0 : 16 * local_rows + sums);
  EXPECT_EQ(held(Kind::communication), 0) << row.name;
}

ModelConfig gpt(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {.name = name,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = 2048,
          .vocabulary = 51200};
}

const ModelConfig models[] = {gpt("22B", 48, 6144, 64), gpt("175B", 96, 12288, 96),
                              gpt("530B", 105, 20480, 128), gpt("1T", 128, 25600, 160)};

TEST(ActivationMemory, OnAVirtualDeviceEqualsTable2ToTheByte) {
  const Machine machine = find_machine("a100-selene");
  for (const ModelConfig& model : models)
    for (const Row& row : rows) {
      const RunConfig c = config_of(row, model, model.name == "22B" ? 4 : 1);
      SCOPED_TRACE(model.name);
      try {
        expect_formula(row, c, *make_virtual_cluster(c, machine));
      } catch (const OutOfMemory&) {
        EXPECT_EQ(row.t, 1) << model.name << ", " << row.name;
      }
    }
}

TEST(ActivationMemory, OnTheCpuAtScaleOneEighthEqualsTable2ToTheByte) {
  const ModelConfig model = models[0].scaled(8);
  for (const Row& row : rows) {
    const RunConfig c = config_of(row, model, 1);
    expect_formula(row, c, *make_cpu_cluster(c, 2));
  }
}

TEST(ActivationMemory, RegeneratedMasksAreNotKept) {
  RunConfig c = config_of(rows[0], models[0].scaled(8), 1);
  c.stored_masks = false;
  const auto cluster = make_cpu_cluster(c, 2);
  const int64_t sbh = c.model.sequence * c.model.hidden;
  const int64_t core = c.model.heads * c.model.sequence * c.model.sequence;
  const ModuleMemory memory = ModuleRun(*cluster).memory();
  EXPECT_EQ(memory.after_forward[static_cast<size_t>(Kind::activation)], 32 * sbh + 4 * core);
}

}  // namespace
}  // namespace frugal::engine
