#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_weights.h"
#include "harness/huggingface/hugging_face_config.h"
#include "harness/settings/models.h"
#include "tests/engine/support.h"
#include "tests/support/folder.h"
#include "tests/support/source_dir.h"

// Small models of the Llama families computed by PyTorch (tests/golden/pytorch_llama.py
// --make-golden), which agree with Hugging Face's library: their config.json, weights in its names,
// and all that follows from them.
namespace frugal::harness {
namespace {

std::vector<int32_t> integers(const HostTensor& tensor) {
  return {tensor.values.begin(), tensor.values.end()};
}

/// The weights of a golden file, as a file of a model has them.
void write_weights(const std::string& path, const safetensors::File& golden) {
  const std::string prefix = "weight/";
  safetensors::File file;
  for (const auto& [name, tensor] : golden.tensors)
    if (name.starts_with(prefix)) file.tensors[name.substr(prefix.size())] = tensor;
  safetensors::write(path, file);
}

struct GoldenCase {
  const char* model;
  int ranks;
  AttentionKind attention;
};

void PrintTo(const GoldenCase& c, std::ostream* out) {
  *out << fmt::format("{}_t{}_{}", c.model, c.ranks, name_of(c.attention));
}

std::vector<GoldenCase> golden_cases(std::initializer_list<const char*> models,
                                     std::initializer_list<AttentionKind> kinds) {
  std::vector<GoldenCase> cases;
  for (const char* model : models)
    for (const int ranks : {1, 2})
      for (const AttentionKind attention : kinds) cases.push_back({model, ranks, attention});
  return cases;
}

class GoldenLlama : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenLlama, LogitsLossAndGradientsEqualPyTorch) {
  const auto& [name, t, attention] = GetParam();
  const auto golden = safetensors::read(
      fmt::format("{}/tests/golden/{}_small.safetensors", testing::source_dir(), name));
  RunConfig c;
  c.model = model_from_hugging_face(nlohmann::json::parse(golden.metadata.at("config")), name);
  c.micro_batch = std::stoll(golden.metadata.at("micro_batch"));
  c.tensor_parallel = t;
  c.sequence_parallel = t > 1;
  c.attention = attention;
  c.validate();
  const testing::Folder folder;
  const std::string file = folder / "weights.safetensors";
  write_weights(file, golden);
  StoredWeights weights(file, c.model);
  const auto cluster = make_cpu_cluster(c, 2);
  Trainer trainer(*cluster, c, {});
  trainer.load_weights([&](const std::string& weight) { return weights.weight(weight); });
  const HostTensors actual =
      in_stored_names(c.model, trainer.snapshot({integers(golden.tensors.at("tokens")),
                                                 integers(golden.tensors.at("labels"))}));
  EXPECT_EQ(actual.size(), golden.tensors.size());
  const auto worst = testing::worst_error(actual, golden.tensors);
  EXPECT_LT(worst.value, 1e-4) << worst.tensor;
}

INSTANTIATE_TEST_SUITE_P(TensorParallel, GoldenLlama,
                         ::testing::ValuesIn(golden_cases(
                             {"llama", "qwen"}, {AttentionKind::separate, AttentionKind::fused})),
                         ::testing::PrintToStringParamName());
// Windows and soft-caps of scores are fused attention's.
INSTANTIATE_TEST_SUITE_P(Gemma, GoldenLlama,
                         ::testing::ValuesIn(golden_cases({"gemma2"}, {AttentionKind::fused})),
                         ::testing::PrintToStringParamName());

RunConfig run_of(const char* model) {
  RunConfig c;
  c.model = find_model(model);
  c.model.dropout = 0;
  c.attention = AttentionKind::fused;
  return c;
}

/// Files have the names that serial_parameters() says, so the engine's model must have them.
class EnginesParameters : public ::testing::TestWithParam<const char*> {};

TEST_P(EnginesParameters, AreThoseOfFiles) {
  const RunConfig c = run_of(GetParam());
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  std::map<std::string, std::vector<int64_t>> engines;
  trainer.each_weight(
      [&](const std::string& name, const HostTensor& weight) { engines[name] = weight.shape; });
  std::map<std::string, std::vector<int64_t>> expected;
  for (const SerialParameter& p : serial_parameters(c.model)) expected[p.name] = p.shape;
  EXPECT_EQ(engines, expected);
}

/// Written by parallel ranks and read by others, weights are the same to the last bit.
TEST_P(EnginesParameters, AreSavedAndLoaded) {
  RunConfig c = run_of(GetParam());
  c.seed = 3;
  const testing::Folder folder;
  const std::string file = folder / "weights.safetensors";
  HostTensors before;
  {
    RunConfig parallel = c;
    parallel.tensor_parallel = parallel.pipeline_parallel = 2;
    const auto cluster = make_cpu_cluster(parallel, 2);
    Trainer trainer(*cluster, parallel, {});
    StoredWeightsWriter writer(file, c.model, c.type, {});
    trainer.each_weight([&](const std::string& name, const HostTensor& weight) {
      before[name] = weight;
      writer.write(name, weight);
    });
    writer.close();
  }
  c.seed = 4;
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  StoredWeights weights(file, c.model);
  trainer.load_weights([&](const std::string& name) { return weights.weight(name); });
  size_t count = 0;
  trainer.each_weight([&](const std::string& name, const HostTensor& weight) {
    EXPECT_EQ(weight.values, before.at(name).values) << name;
    ++count;
  });
  EXPECT_EQ(count, before.size());
}

INSTANTIATE_TEST_SUITE_P(Models, EnginesParameters,
                         ::testing::Values("gpt-tiny", "llama-tiny", "gemma2-tiny"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('-'));
                         });

}  // namespace
}  // namespace frugal::harness
