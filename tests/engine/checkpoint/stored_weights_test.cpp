#include "engine/checkpoint/stored_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "engine/checkpoint/safetensors.h"
#include "engine/train/trainer.h"
#include "kernels/support/error.h"
#include "tests/support/folder.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

/// 6 heads of queries, 2 of keys and values, 4 wide.
ModelConfig odd_llama() {
  return {.name = "small",
          .layers = 2,
          .hidden = 20,
          .heads = 6,
          .sequence = 16,
          .vocabulary = 12,
          .dropout = 0,
          .kv_heads = 2,
          .head_width = 4,
          .intermediate = 7,
          .norm = NormKind::rms,
          .mlp = MlpKind::swiglu,
          .bias = BiasKind::qkv,
          .positions = PositionKind::rotary,
          .tied = false};
}

ModelConfig odd_gemma() {
  ModelConfig m = odd_llama();
  m.mlp = MlpKind::geglu;
  m.bias = BiasKind::none;
  m.tied = m.post_norms = m.scaled_embedding = true;
  return m;
}

class Stored : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  HostTensor random(std::vector<int64_t> shape) {
    HostTensor tensor{std::move(shape), {}, DType::f32};
    std::uniform_int_distribution<int> any(-128, 127);
    for (int64_t i = tensor.size(); i-- > 0;) tensor.values.push_back(any(generator_) / 64.0);
    return tensor;
  }
  /// Every tensor of LlamaForCausalLM by name, as its library lists them; with the biases of
  /// Qwen2ForCausalLM.
  HostTensors llama_tensors(const ModelConfig& m) {
    const int64_t h = m.hidden;
    const int64_t d = m.head_size();
    HostTensors all;
    all["model.embed_tokens.weight"] = random({m.vocabulary, h});
    all["model.norm.weight"] = random({h});
    all["lm_head.weight"] = random({m.vocabulary, h});
    for (int64_t i = 0; i < m.layers; ++i) {
      const std::string layer = fmt::format("model.layers.{}.", i);
      for (const auto& [name, rows] : {std::pair{"q_proj", m.heads * d},
                                       {"k_proj", m.kv_heads * d},
                                       {"v_proj", m.kv_heads * d}}) {
        all[layer + "self_attn." + name + ".weight"] = random({rows, h});
        if (m.bias == BiasKind::qkv) all[layer + "self_attn." + name + ".bias"] = random({rows});
      }
      all[layer + "self_attn.o_proj.weight"] = random({h, m.heads * d});
      all[layer + "mlp.gate_proj.weight"] = random({m.intermediate, h});
      all[layer + "mlp.up_proj.weight"] = random({m.intermediate, h});
      all[layer + "mlp.down_proj.weight"] = random({h, m.intermediate});
      all[layer + "input_layernorm.weight"] = random({h});
      all[layer + "post_attention_layernorm.weight"] = random({h});
      if (!m.post_norms) continue;
      all[layer + "pre_feedforward_layernorm.weight"] = random({h});
      all[layer + "post_feedforward_layernorm.weight"] = random({h});
    }
    if (m.tied) all.erase("lm_head.weight");
    return all;
  }
  std::string file_of(const HostTensors& tensors, const std::string& name = "model.safetensors") {
    std::filesystem::remove(path(name));
    safetensors::write(path(name), {tensors, {}});
    return path(name);
  }
  void expect_refused(const std::string& file, const ModelConfig& model,
                      std::initializer_list<std::string> parts) {
    const std::string said = message_of<InputError>([&] { StoredWeights(file, model); });
    for (const std::string& part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
  }

 private:
  testing::Folder folder_;
  std::mt19937 generator_{5};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in every run
};

/// Row by row: which of Hugging Face's rows each of the engine's is.
TEST_F(Stored, QueriesKeysAndValuesAreOrderedByGroups) {
  const ModelConfig m = odd_llama();
  const HostTensors tensors = llama_tensors(m);
  StoredWeights weights(file_of(tensors), m);
  const int64_t d = 4;
  for (const char* kind : {"weight", "bias"}) {
    const HostTensor qkv = weights.weight(fmt::format("layers.1.attention.qkv.{}", kind));
    const int64_t width = qkv.size() / qkv.shape[0];
    ASSERT_EQ(qkv.shape[0], (6 + 2 + 2) * d);
    const auto expect_head = [&](int64_t head, const char* map, int64_t theirs) {
      const HostTensor& tensor =
          tensors.at(fmt::format("model.layers.1.self_attn.{}_proj.{}", map, kind));
      for (int64_t i = 0; i < d * width; ++i)
        ASSERT_EQ(qkv.values.at(static_cast<size_t>(head * d * width + i)),
                  tensor.values.at(static_cast<size_t>(theirs * d * width + i)))
            << map << theirs;
    };
    int64_t head = 0;
    for (int64_t group = 0; group < 2; ++group) {
      for (int64_t query = 0; query < 3; ++query) expect_head(head++, "q", 3 * group + query);
      expect_head(head++, "k", group);
      expect_head(head++, "v", group);
    }
  }
}

TEST_F(Stored, GatesStandBeforeUpAndTheRestAsItIs) {
  const ModelConfig m = odd_llama();
  const HostTensors tensors = llama_tensors(m);
  StoredWeights weights(file_of(tensors), m);
  std::vector<double> both = tensors.at("model.layers.0.mlp.gate_proj.weight").values;
  const auto& up = tensors.at("model.layers.0.mlp.up_proj.weight").values;
  both.insert(both.end(), up.begin(), up.end());
  EXPECT_EQ(weights.weight("layers.0.mlp.up.weight").values, both);
  for (const auto& [ours, theirs] :
       {std::pair{"embedding.token", "model.embed_tokens.weight"},
        {"output.token", "lm_head.weight"},
        {"final_norm.gamma", "model.norm.weight"},
        {"layers.1.attention_norm.gamma", "model.layers.1.input_layernorm.weight"},
        {"layers.1.mlp_norm.gamma", "model.layers.1.post_attention_layernorm.weight"},
        {"layers.1.attention.projection.weight", "model.layers.1.self_attn.o_proj.weight"},
        {"layers.1.mlp.down.weight", "model.layers.1.mlp.down_proj.weight"}})
    EXPECT_EQ(weights.weight(ours).values, tensors.at(theirs).values) << ours;
  EXPECT_THROW(weights.weight("embedding.position"), std::out_of_range);
}

TEST_F(Stored, GemmasNormsAreStoredAsTheyAre) {
  const ModelConfig m = odd_gemma();
  const HostTensors tensors = llama_tensors(m);
  StoredWeights weights(file_of(tensors), m);
  for (const auto& [ours, theirs] :
       {std::pair{"final_norm", "model.norm"},
        {"layers.1.attention_norm", "model.layers.1.input_layernorm"},
        {"layers.1.attention_post_norm", "model.layers.1.post_attention_layernorm"},
        {"layers.1.mlp_norm", "model.layers.1.pre_feedforward_layernorm"},
        {"layers.1.mlp_post_norm", "model.layers.1.post_feedforward_layernorm"}})
    EXPECT_EQ(weights.weight(fmt::format("{}.gamma", ours)).values,
              tensors.at(fmt::format("{}.weight", theirs)).values)
        << ours;
}

/// Small ones of bf16's 8 bits, which a gain of 1 and more has no place for.
TEST_F(Stored, WeightsOf16BitsComeBackBitByBit) {
  RunConfig c;
  c.model = odd_gemma();
  c.type = DType::bf16;
  c.attention = AttentionKind::fused;
  HostTensors tensors = llama_tensors(c.model);
  for (auto& [_, tensor] : tensors)
    for (double& value : tensor.values) value /= 128;
  StoredWeights weights(file_of(tensors), c.model);
  const auto cluster = make_cpu_cluster(c, 1);
  Trainer trainer(*cluster, c, {});
  trainer.load_weights([&](const std::string& name) { return weights.weight(name); });
  const std::string to = path("again");
  StoredWeightsWriter writer(to, c.model, c.type, {});
  trainer.each_weight(
      [&](const std::string& name, const HostTensor& weight) { writer.write(name, weight); });
  writer.close();
  const safetensors::File again = safetensors::read(to);
  for (const auto& [name, tensor] : tensors)
    EXPECT_EQ(again.tensors.at(name).values, tensor.values) << name;
}

TEST_F(Stored, WhatWasReadIsWrittenAgain) {
  ModelConfig gpt = odd_llama();
  gpt = {.name = "gpt", .layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 6};
  for (const ModelConfig& m : {odd_llama(), odd_gemma(), gpt}) {
    HostTensors tensors;
    if (naming_of(m) == Naming::hugging_face)
      tensors = llama_tensors(m);
    else
      for (const SerialParameter& p : serial_parameters(m)) tensors[p.name] = random(p.shape);
    StoredWeights weights(file_of(tensors), m);
    for (const DType type : {DType::f32, DType::bf16}) {
      const std::string to = path(fmt::format("{}.again", name_of(type)));
      std::filesystem::remove(to);
      StoredWeightsWriter writer(to, m, type, {});
      for (const SerialParameter& p : serial_parameters(m)) {
        const HostTensor weight = weights.weight(p.name);
        EXPECT_EQ(weight.shape, p.shape);
        writer.write(p.name, weight);
      }
      writer.close();
      const safetensors::File again = safetensors::read(to);
      ASSERT_EQ(again.tensors.size(), tensors.size());
      for (const auto& [name, tensor] : tensors) {  // 8 bits: exact in bf16 too
        EXPECT_EQ(again.tensors.at(name).values, tensor.values) << name;
        EXPECT_EQ(again.tensors.at(name).shape, tensor.shape) << name;
      }
      const int64_t bytes = type == DType::bf16 ? 2 : 4;
      EXPECT_EQ(size_of(safetensors::read_header(to).entries.begin()->second.stored), bytes);
    }
  }
}

TEST_F(Stored, FilesThatDoNotFitTheModelAreRefusedByName) {
  const ModelConfig m = odd_llama();
  const HostTensors right = llama_tensors(m);
  HostTensors tensors = right;
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  expect_refused(file_of(tensors), m, {"model.layers.1.mlp.up_proj.weight", "missing", "small"});
  tensors = right;
  tensors["model.norm.weight"] = random({19});
  expect_refused(file_of(tensors), m, {"model.norm.weight", "[19]", "[20]"});
  tensors = right;
  tensors["model.norm.weight"].type = DType::i32;
  expect_refused(file_of(tensors), m, {"model.norm.weight", "I32"});
  tensors = right;
  tensors["model.layers.0.self_attn.o_proj.bias"] = random({20});
  expect_refused(file_of(tensors), m, {"no tensor model.layers.0.self_attn.o_proj.bias"});
  tensors = right;
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = random({2});
  EXPECT_NO_THROW(StoredWeights(file_of(tensors), m));
}

TEST_F(Stored, AnOutputLayerOfATiedModelMustBeItsTable) {
  ModelConfig m = odd_llama();
  m.tied = true;
  HostTensors tensors = llama_tensors(m);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  EXPECT_NO_THROW(StoredWeights(file_of(tensors), m));
  tensors["lm_head.weight"].values.back() += 1;
  expect_refused(file_of(tensors), m, {"lm_head.weight", "model.embed_tokens.weight", "tied"});
}

TEST_F(Stored, SeveralFilesAreOneModel) {
  const ModelConfig m = odd_llama();
  const HostTensors tensors = llama_tensors(m);
  HostTensors parts[2];
  for (const auto& [name, tensor] : tensors)
    parts[name.find("layers.1") == std::string::npos ? 0 : 1][name] = tensor;
  file_of(parts[0], "a.safetensors");
  file_of(parts[1], "b.safetensors");
  const auto index = [&](const std::string& name, const std::string& file) {
    std::string text;
    for (const auto& [tensor, _] : tensors)
      text += fmt::format("{}\"{}\":\"{}\"", text.empty() ? "" : ",", tensor,
                          tensor == name              ? file
                          : parts[0].contains(tensor) ? "a.safetensors"
                                                      : "b.safetensors");
    std::ofstream(path("model.safetensors.index.json"))
        << fmt::format("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", text);
    return path("model.safetensors.index.json");
  };
  StoredWeights weights(index("", ""), m);
  EXPECT_EQ(weights.weight("layers.1.mlp.down.weight").values,
            tensors.at("model.layers.1.mlp.down_proj.weight").values);
  EXPECT_EQ(weights.files().paths().size(), 2U);
  EXPECT_NO_THROW(StoredWeights(path(""), m)) << "its folder";
  const std::string norm = "model.norm.weight";
  expect_refused(index(norm, "c.safetensors"), m, {norm, "c.safetensors", "not beside"});
  expect_refused(index(norm, "b.safetensors"), m, {norm, "not in b.safetensors"});
  for (const char* outside : {"../a.safetensors", "/etc/passwd", "..", ""})
    expect_refused(index(norm, outside), m, {norm, "without a folder"});
  std::ofstream(path("model.safetensors.index.json")) << "{}";
  expect_refused(path(""), m, {"weight_map", "missing"});
  std::filesystem::remove(path("model.safetensors.index.json"));
  expect_refused(path(""), m, {"neither model.safetensors nor model.safetensors.index.json"});
}

}  // namespace
}  // namespace frugal::engine
