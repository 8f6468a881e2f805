#include <gtest/gtest.h>

#include "tests/engine/program/support.h"

// What programs/megatron-core.json keeps beside, in bytes, and does besides, in seconds.
namespace frugal::engine {
namespace {

using testing::as;
using testing::counted_steps;
using testing::Sizes;
using testing::small_gpt;
using testing::small_llama;
using testing::step_on;

constexpr int64_t mib = 1 << 20;

int64_t peak_on(const std::string& machine, const RunConfig& config) {
  return counted_steps(config, 1, machine)->rank(0).ledger.peak();
}

/// Bytes at the peak that a program has more than frugal has.
int64_t more_on(const std::string& machine, const RunConfig& config, const std::string& program) {
  return peak_on(machine, as(config, program)) - peak_on(machine, as(config, "frugal"));
}

/// PyTorch: 2 x 4096 + 16 x 8 KiB, or 32 MiB on Hopper, for each of two handles; as much as
/// CUBLAS_WORKSPACE_CONFIG=:4096:8 says. TransformerEngine: 4 MiB, and from Hopper on 32 MiB + 1
/// KiB.
TEST(MegatronCore, HasWorkspacesOfLibraries) {
  const RunConfig gpt = small_gpt();
  EXPECT_EQ(more_on("a100-selene", gpt, "cublas-workspaces"), 2 * 8320 * 1024);
  EXPECT_EQ(more_on("h200-hgx", gpt, "cublas-workspaces"), 2 * 32 * mib);
  for (const char* machine : {"a100-selene", "h100-dgx", "b200-dgx"})
    EXPECT_EQ(more_on(machine, gpt, "cublas-workspaces+deterministic-algorithms"),
              2 * 8 * 4096 * 1024);
  EXPECT_EQ(more_on("a100-selene", gpt, "transformer-engine-workspace"), 4 * mib);
  EXPECT_EQ(more_on("b200-dgx", gpt, "transformer-engine-workspace"), 32 * mib + 1024);
  EXPECT_EQ(more_on("h100-dgx", gpt, "rests-of-blocks"), 7 * mib);
}

/// The most bytes that a run keeps for its backward pass.
int64_t kept_on(const std::string& machine, const RunConfig& config) {
  return counted_steps(config, 1, machine)->rank(0).ledger.peak(Kind::activation);
}

/// TransformerEngine takes FlashAttention before Hopper, and on Blackwell where it is to be
/// deterministic; then a layer keeps its context twice, [s, b, h] of 2 bytes each.
TEST(MegatronCore, KeepsTheOutputOfFlashAttentionTwice) {
  const RunConfig llama = small_llama();
  const Sizes n(llama);
  const auto copies = [&](const char* machine, const std::string& beside = "") {
    return kept_on(machine, as(llama, "flash-attention-copies" + beside)) -
           kept_on(machine, as(llama, "frugal"));
  };
  const int64_t once_more = n.layers * 2 * n.hidden;
  EXPECT_EQ(copies("a100-selene"), once_more);
  EXPECT_EQ(copies("h100-dgx"), 0);
  EXPECT_EQ(copies("h100-dgx", "+deterministic-algorithms"), 0);
  EXPECT_EQ(copies("h100-dgx", "+flash-attention"), once_more);
  EXPECT_EQ(copies("b200-dgx"), 0);
  EXPECT_EQ(copies("b200-dgx", "+deterministic-algorithms"), once_more);
}

/// FlashAttention's gradient of queries in float32: once, or for each of the ⌈108 / (b a)⌉ parts of
/// an A100's multiprocessors. Beside it lie the copy of the context's gradient, and gradients of
/// keys and values of all heads. Attention of 256 columns a head, of which one layer's backward
/// pass is the peak.
TEST(MegatronCore, SumsTheGradientOfQueriesByPartsOfAGpu) {
  RunConfig llama = small_llama();
  llama.model.vocabulary = 8;
  llama.model.head_width = 256;
  const auto peak = [&](const std::string& program) {
    return peak_on("a100-selene", as(llama, program));
  };
  const int64_t context = llama.model.sequence * llama.micro_batch * llama.model.query_size();
  const int64_t parts = (108 + 16 - 1) / 16;
  EXPECT_EQ(
      peak("flash-attention-copies+deterministic-algorithms") - peak("flash-attention-copies"),
      (parts - 1) * 4 * context);
}

/// Sums beyond one are written and read, 4 bytes an element each, by one kernel a layer.
TEST(MegatronCore, FillsAndReadsFurtherSumsOfTheGradientOfQueries) {
  const RunConfig llama = small_llama();
  const Machine a100 = find_machine("a100-selene");
  const auto seconds = [&](const std::string& program) {
    return step_on("a100-selene", as(llama, program));
  };
  const double elements =
      static_cast<double>(llama.model.sequence * llama.micro_batch * llama.model.query_size());
  const double parts = (108 + 16 - 1) / 16;
  const double each =
      (parts - 1) * 2 * 4 * elements / (a100.memory_bandwidth * a100.memory_fraction);
  EXPECT_NEAR(seconds("flash-attention-copies+deterministic-algorithms") -
                  seconds("flash-attention-copies"),
              static_cast<double>(llama.model.layers) * (each + a100.launch_overhead), 2e-6);
}

/// A mask of a byte for each pair comes over the host's link.
TEST(MegatronCore, CopiesMasksFromTheHost) {
  RunConfig gpt = small_gpt();
  gpt.attention = AttentionKind::fused;
  gpt.model.sequence = 4096;
  const Machine h100 = find_machine("h100-dgx");
  const double bytes = static_cast<double>(gpt.micro_batch) * 4096 * 4096;
  EXPECT_NEAR(step_on("h100-dgx", as(gpt, "batch-masks")) - step_on("h100-dgx", as(gpt, "frugal")),
              bytes / (h100.host_bandwidth * h100.host_fraction), h100.launch_overhead + 1e-6);
}

/// A step's host time is hidden behind a backward pass, unless the host waits for that.
TEST(MegatronCore, WaitsForGradientsBeforeItIssuesAStep) {
  RunConfig gpt = small_gpt();
  gpt.attention = AttentionKind::fused;
  gpt.model.sequence = 1 << 16;  // the device is busy when the host has issued its passes
  const auto seconds = [&](const std::string& program) {
    return step_on("a100-selene", as(gpt, program));
  };
  const Machine a100 = find_machine("a100-selene");
  const double counts = 36 * (a100.launch_overhead - 2 * a100.kernel_latency);
  EXPECT_GT(seconds("host-waits-in-steps+megatron-zero-counts"),
            seconds("megatron-zero-counts") + counts);
  EXPECT_LT(seconds("host-waits-in-steps"), seconds("frugal") + counts) << "little to issue";
}

/// Bytes that a backward pass has of a loss and a forward pass has not where it has logits in 2 and
/// in 4 bytes: three statistics and a loss of each token.
int64_t of_loss(const RunConfig& c) { return 4 * 4 * c.model.sequence * c.micro_batch; }

/// Forward passes have a mask of each sequence, and the output layer's logits twice, in 2 and 4
/// bytes; backward passes have logits in 4 bytes and their gradient in 2.
TEST(MegatronCore, HasMasksBesideLogitsInForwardPasses) {
  RunConfig gpt = small_gpt();
  gpt.attention = AttentionKind::fused;
  gpt.model.vocabulary = 4096;  // the peak is at the logits
  const int64_t masks = gpt.micro_batch * gpt.model.sequence * gpt.model.sequence;
  const int64_t backward = peak_on("h100-dgx", as(gpt, "batch-masks"));
  EXPECT_EQ(backward, peak_on("h100-dgx", as(gpt, "frugal"))) << "masks are gone";
  const int64_t alone = peak_on("h100-dgx", as(gpt, "copied-logits"));
  EXPECT_EQ(peak_on("h100-dgx", as(gpt, "copied-logits+batch-masks")) - alone,
            masks - of_loss(gpt));
  gpt.recompute = Recompute::full;
  EXPECT_EQ(peak_on("h100-dgx", as(gpt, "batch-masks")) - peak_on("h100-dgx", as(gpt, "frugal")),
            masks)
      << "layers are computed again from them";
}

/// The peak of the last of two stages, at its logits.
int64_t peak_of_last(RunConfig config, const std::string& program) {
  config.pipeline_parallel = 2;
  config.schedule = ScheduleKind::one_forward_one_backward;
  config.microbatches = 3;
  return counted_steps(as(config, program), 1, "h100-dgx")->rank(1).ledger.peak();
}

TEST(MegatronCore, KeepsAStagesInputUntilTheNextForwardPassEnds) {
  RunConfig gpt = small_gpt();
  gpt.attention = AttentionKind::fused;
  gpt.model.vocabulary = 4096;
  EXPECT_EQ(
      peak_of_last(gpt, "copied-logits+inputs-until-next") - peak_of_last(gpt, "copied-logits"),
      2 * Sizes(gpt).hidden - of_loss(gpt));
}

/// Two of three microbatches have left their inputs and gradients of logits when the last one is
/// at the peak.
TEST(MegatronCore, DefersGradientsOfTheOutputLayer) {
  RunConfig gpt = small_gpt();
  gpt.model.vocabulary = 4096;
  const Sizes n(gpt);
  EXPECT_EQ(peak_of_last(gpt, "deferred-head-gradients") - peak_of_last(gpt, "frugal"),
            2 * (2 * n.hidden + 2 * n.logits));
}

/// BERT's heads: a linear layer with its bias each, a norm's gain and bias, a bias of the
/// vocabulary; a second linear layer of two outputs. A parameter has 2 + 4 + 12 bytes, of which
/// replicas may divide the last. What the first head's three parts give stays until its backward
/// pass.
TEST(MegatronCore, HasTheHeadsOfMaskedTokenModels) {
  RunConfig bert = small_gpt();
  bert.model.objective = Objective::masked_token;
  bert.model.vocabulary = 4096;
  const auto more = [&](const std::string& behaviour) {
    return peak_of_last(bert, behaviour) - peak_of_last(bert, "frugal");
  };
  const int64_t h = bert.model.hidden, token = h * h + h + 2 * h + 4096,
                sentence = h * h + h + 2 * h + 2, results = 3 * 2 * Sizes(bert).hidden;
  EXPECT_EQ(more("token-head"), 18 * token + results);
  EXPECT_EQ(more("sentence-head"), 18 * sentence);
  bert.data_parallel = 2;
  bert.shard = Shard::optimizer;
  EXPECT_EQ(more("token-head"), (6 + 12 / 2) * token + results);
  bert.model.objective = Objective::next_token;
  EXPECT_EQ(more("token-head+sentence-head"), 0);
}

/// Layers without TransformerEngine: a softmax in 4 bytes that its dropped copy of 2 is made of,
/// and memory of one layer's scores that stays.
TEST(MegatronCore, HasScoresBesideThoseOfLayers) {
  const RunConfig gpt = small_gpt();
  const int64_t scores =
      gpt.micro_batch * gpt.model.heads * gpt.model.sequence * gpt.model.sequence;
  EXPECT_EQ(more_on("a100-selene", gpt, "score-buffer"), 2 * scores);
  EXPECT_EQ(kept_on("a100-selene", as(gpt, "wide-probabilities")) -
                kept_on("a100-selene", as(gpt, "frugal")),
            gpt.model.layers * 2 * scores);
}

/// Gradients in 2 bytes, as long as the model is there.
TEST(MegatronCore, SumsGradientsInTwoBytes) {
  EXPECT_EQ(testing::gradients(small_gpt(), "frugal"),
            2 * testing::gradients(small_gpt(), "narrow-sums"));
}

}  // namespace
}  // namespace frugal::engine
