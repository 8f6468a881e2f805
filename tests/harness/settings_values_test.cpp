// Sizes of named models, and what a run has where it is not given, computed a second time.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/options/layer_counts.h"
#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "harness/settings/config_json.h"
#include "harness/settings/models.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// korthikanti2022, table 3; pipedream2bw2021, section 5; GPT-2 (Radford et al. 2019), table 2.
/// Published Llamas are in hugging_face_config_test.cpp.
TEST(SettingsValues, NamedModelsHaveTheSizesOfTheirPapers) {
  const std::vector<std::tuple<const char*, int, int, int, int, int>> sizes = {
      {"22B", 48, 6144, 64, 2048, 51200},
      {"175B", 96, 12288, 96, 2048, 51200},
      {"530B", 105, 20480, 128, 2048, 51200},
      {"1T", 128, 25600, 160, 2048, 51200},
      {"gpt2-124m", 12, 768, 12, 1024, 50304},
      {"gpt2-1.5b", 48, 1600, 25, 1024, 50304},
      {"gpt-355m", 24, 1024, 16, 512, 50304},
      {"gpt-1.3b", 24, 2048, 16, 512, 50304},
      {"gpt-2.2b", 32, 2304, 32, 512, 50304},
      {"gpt-3.8b", 32, 3072, 32, 512, 50304},
      {"gpt-28.3b", 2240, 1024, 16, 512, 50304},
      {"bert-355m", 24, 1024, 16, 512, 30592},
      {"bert-2.2b", 32, 2304, 32, 512, 30592},
      {"bert-3.8b", 32, 3072, 32, 512, 30592},
      {"gpt-3m", 4, 256, 8, 128, 256},
      {"bert-3m", 4, 256, 8, 128, 264},
      {"gpt-tiny", 2, 64, 4, 32, 256}};
  for (const auto& [name, layers, hidden, heads, sequence, vocabulary] : sizes) {
    const bool bert = std::string_view(name).starts_with("bert");
    EXPECT_EQ(to_json(find_model(name)),
              json({{"name", name},
                    {"layers", layers},
                    {"hidden_size", hidden},
                    {"attention_heads", heads},
                    {"sequence_length", sequence},
                    {"vocabulary_size", vocabulary},
                    {"dropout", 0.1},
                    {"causal", !bert},
                    {"objective", bert ? "masked-token" : "next-token"}}));
  }
  EXPECT_EQ(to_json(find_model("llama-tiny")),
            json::parse(R"({"name": "llama-tiny", "layers": 2, "hidden_size": 64,
    "attention_heads": 4, "key_value_heads": 2, "intermediate_size": 96, "sequence_length": 32,
    "vocabulary_size": 256, "dropout": 0, "causal": true, "objective": "next-token",
    "norm": "rms-norm", "mlp": "swiglu", "bias": "none", "positions": "rotary",
    "rotary": {"base": 10000}, "tied_embeddings": false})"));
  const ModelConfig gpt = find_model("22B");  // what follows where a model does not state it
  EXPECT_EQ(gpt.intermediate_size(), 4 * 6144);
  EXPECT_EQ(gpt.head_size(), 6144 / 64);
  EXPECT_EQ(gpt.key_value_heads(), 64);
  EXPECT_EQ(model_names().size(), sizes.size() + 11);
}

RunConfig resolved(const json& given) {
  const RunSettings settings = settings_of(given);
  return training_run(settings, *target_of(settings)).config;
}

TEST(SettingsValues, WhatIsNotGivenFollows) {
  const auto run_of = [](json given) {
    given.update({{"model", "gpt-tiny"}, {"on", "cpu"}, {"threads", 1}});
    const RunSettings settings = settings_of(given);
    return training_run(settings, *target_of(settings));
  };
  EXPECT_EQ(run_of({{"steps", 119}}).train.warm_up, 5) << "a twentieth";
  EXPECT_EQ(run_of({{"steps", 119}, {"warm_up", 3}}).train.warm_up, 3);
  EXPECT_EQ(run_of({{"steps", 119}}).train.steps, 119);
  EXPECT_EQ(run_of({}).train.steps, 1);
  EXPECT_EQ(run_of({}).train.optimizer.clip, 1);
  EXPECT_EQ(run_of({{"clip", 0.7}}).train.optimizer.clip, 0.7);
  EXPECT_EQ(run_of({{"step_in_backward", true}}).train.optimizer.clip, 0);
  EXPECT_EQ(run_of({{"recompute_modules", "norm"}}).config.recompute, Recompute::selective);
  EXPECT_TRUE(run_of({{"offload_modules", "norm"}}).config.offload);
  const json two = {{"schedule", "zb-v"}, {"pipeline_parallel_size", 2}, {"layers", 4}};
  EXPECT_EQ(run_of(two).config.chunks, 2);
  const testing::Folder folder;
  std::ofstream(folder / "own") << engine::to_text(engine::make_schedule(
      ScheduleKind::two_buffered, {.stages = 2, .microbatches = 3, .batches = 5}));
  const TrainingRun own = run_of({{"schedule_file", folder / "own"}});
  EXPECT_EQ(std::tuple(own.config.pipeline_parallel, own.config.microbatches, own.train.steps),
            std::tuple(2, 3, 5));
  const RunConfig scaled =
      resolved({{"model", "llama3-8b"}, {"on", "virtual:a100-selene"}, {"scale", "1/4"}});
  EXPECT_EQ(std::tuple(scaled.model.hidden, scaled.model.sequence, scaled.model.vocabulary,
                       scaled.model.intermediate, scaled.model.layers, scaled.model.heads),
            std::tuple(1024, 2048, 32064, 3584, 32, 32));
  EXPECT_EQ(scaled.type, DType::bf16);
  EXPECT_EQ(scaled.attention, AttentionKind::fused) << "positions are rotary";
  const RunConfig gpt = resolved({{"model", "gpt-tiny"}, {"on", "cpu"}, {"threads", 1}});
  EXPECT_EQ(gpt.type, DType::f32);
  EXPECT_EQ(gpt.attention, AttentionKind::separate);
}

/// All sequences of a step: microbatch x microbatches x replicas; all ranks: t x c x p x d.
TEST(SettingsValues, ProductsAreOfAllTheirFactors) {
  const RunConfig config = settings_of({{"microbatch_size", 3},
                                        {"microbatches", 5},
                                        {"data_parallel_size", 7},
                                        {"tensor_parallel_size", 2},
                                        {"context_parallel_size", 11},
                                        {"pipeline_parallel_size", 13}})
                               .config;
  EXPECT_EQ(to_json(config).at("global_batch"), 3 * 5 * 7);
  EXPECT_EQ(config.ranks(), 7 * 2 * 11 * 13);
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(parse_layer_counts("7+3*8+0+5"), (Counts{7, 8, 8, 8, 0, 5}));
  EXPECT_EQ(text_of_layer_counts(Counts{7, 8, 8, 8, 0, 5, 5}), "7+3*8+0+2*5");
  EXPECT_EQ(parse_layer_counts("7+3*"), std::nullopt);
}

}  // namespace
}  // namespace frugal::harness
