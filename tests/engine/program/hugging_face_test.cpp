#include <gtest/gtest.h>

#include "tests/engine/program/support.h"

// What programs/hugging-face-2024.json, mini-s.json and padded-c4.json take beside, in bytes.
namespace frugal::engine {
namespace {

using testing::as;
using testing::bytes_of;
using testing::peak_of;
using testing::Sizes;
using testing::small_llama;

/// Elements of queries, keys and values of one layer.
int64_t qkv_elements(const RunConfig& c) {
  return c.model.sequence * c.micro_batch * c.model.qkv_size();
}

TEST(HuggingFace, KeepsNothingOfPaddingInAttention) {
  RunConfig llama = small_llama();
  const int64_t padded = bytes_of(as(llama, "padded-data")).layer;
  EXPECT_EQ(bytes_of(as(llama, "frugal")).layer - padded,
            llama.model.layers * 2 * qkv_elements(llama));
  llama.recompute = Recompute::selective;  // of what there is no input
  EXPECT_EQ(padded - bytes_of(as(llama, "padded-data")).layer,
            llama.model.layers * llama.model.sequence * llama.micro_batch * llama.model.hidden * 2);
}

TEST(HuggingFace, SumsTheQueriesGradientInFloat32BesideKeysAndValuesOfAllHeads) {
  RunConfig llama = small_llama();
  llama.model.head_width = 256;  // heads have far more than the rest of a layer
  const int64_t queries =
      llama.model.sequence * llama.micro_batch * llama.model.heads * llama.model.head_width;
  const auto more = [&] {
    return peak_of(Module::layer, as(llama, "attention-workspace")) -
           peak_of(Module::layer, as(llama, "frugal"));
  };
  EXPECT_EQ(more(), (4 + 2 + 2) * queries);
  llama.model.kv_heads = llama.model.heads;
  EXPECT_EQ(more(), 4 * queries) << "heads are not grouped";
}

TEST(HuggingFace, HasTensorsInPiecesOfMemory) {
  const auto reserved = [](const Pieces& pieces) {
    const RunConfig c = as(small_llama(), "caching-allocator");
    const auto cluster = make_virtual_cluster(c, find_machine("h200-hgx"));
    Rank& rank = cluster->rank(0);
    const Tensor x(rank.ledger, Kind::workspace, DType::bf16, {8, 1 << 20}, Place{}, pieces);
    EXPECT_EQ(rank.ledger.current(Kind::workspace), 16 << 20);
    return rank.device.reserved();
  };
  const int64_t whole = reserved({});
  EXPECT_EQ(reserved({7, 1}) - whole, (14 + 20 - 16) << 20) << "2 MiB are of a segment of 20";
}

/// Queries, keys and values are three tensors, and a gate and what it is multiplied with two, of as
/// many bytes as one.
TEST(HuggingFace, HasAsManyBytesInSeparateProjections) {
  const RunConfig llama = small_llama();
  EXPECT_EQ(bytes_of(as(llama, "separate-projections")).layer, bytes_of(as(llama, "frugal")).layer);
  const auto reserved = [&](const std::string& besides) {
    RunConfig large = as(llama, "gradients-when-needed+caching-allocator" + besides);
    large.model.hidden = 1024;
    large.model.intermediate = 4096;
    const auto cluster = make_virtual_cluster(large, find_machine("h200-hgx"));
    Trainer trainer(*cluster, large, {.optimizer = {.clip = 0}, .steps = 1});
    return cluster->rank(0).device.reserved();
  };
  EXPECT_NE(reserved("+separate-projections"), reserved("")) << "as other blocks";
}

/// Parts of 80 tokens: 26, 26 and 28, or 32, 32 and 16. At the peak a gate, its product, and the
/// gradient of that are there of each.
TEST(HuggingFace, HasPartsOfTheHiddenSize) {
  RunConfig llama = small_llama();
  llama.model.hidden = 32;
  llama.model.sequence = 80;
  llama.mlp_chunks = RunConfig::by_rule;
  ASSERT_EQ(llama.mlp_mini_sequences(), 3);
  const auto largest = [&](const std::string& program) {
    return peak_of(Module::mlp, as(llama, program));
  };
  const int64_t of_a_row = 4 * 2 * llama.micro_batch * llama.model.intermediate_size();
  const int64_t more = largest("parts-of-hidden-size") - largest("frugal");
  EXPECT_EQ(more, (32 - 28) * of_a_row);
  llama.mlp_chunks = 3;
  EXPECT_EQ(largest("parts-of-hidden-size"), largest("frugal")) << "their number is given";
}

TEST(HuggingFace, MakesTheOptimizersStateInTheFirstStep) {
  const RunConfig llama = small_llama();
  const auto state = [&](const std::string& program, int steps) {
    const RunConfig c = as(llama, program);
    const auto cluster = make_virtual_cluster(c, find_machine("h200-hgx"));
    Trainer trainer(*cluster, c, {.optimizer = {.clip = 0}, .steps = 1});
    for (int i = 0; i < steps; ++i)
      (void)trainer.step(Batch(static_cast<size_t>(c.batch_microbatches())));
    return cluster->rank(0).ledger.current(Kind::optimizer);
  };
  EXPECT_EQ(state("late-state", 0), 0);
  EXPECT_GT(state("frugal", 0), 0);
  EXPECT_EQ(state("late-state", 1), state("frugal", 1));
  EXPECT_EQ(state("late-state", 2), state("frugal", 2));
}

/// All parts, the sum, and the one that is added are there when they are added up.
TEST(HuggingFace, AddsUpThePartsOfTheHeadInWholeTensors) {
  RunConfig llama = small_llama();
  llama.head_chunks = 4;
  llama.model.vocabulary = 8;
  const Sizes n(llama);
  const int64_t more = peak_of(Module::output_layer, as(llama, "separate-part-gradients")) -
                       peak_of(Module::output_layer, as(llama, "frugal"));
  EXPECT_GT(more, 2 * n.hidden) << "more than one beside those of the parts";
  EXPECT_LE(more, 2 * 2 * n.hidden) << "less what the parts have beside, where frugal's peak is";
}

}  // namespace
}  // namespace frugal::engine
