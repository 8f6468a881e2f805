#include "harness/huggingface/hugging_face_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/serial_parameters.h"
#include "engine/checkpoint/stored_weights.h"
#include "harness/settings/config_json.h"
#include "harness/settings/models.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// As they are published, with keys of different versions of the library.
const std::map<std::string, const char*>& published() {
  static const std::map<std::string, const char*> all = {
      {"llama2-7b", R"({"_name_or_path": "x", "architectures": ["LlamaForCausalLM"],
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16",
        "transformers_version": "4.31.0.dev0", "use_cache": true, "vocab_size": 32000})"},
      {"llama3-8b", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})"},
      {"llama3-70b", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 8192,
        "intermediate_size": 28672, "max_position_embeddings": 8192, "model_type": "llama",
        "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})"},
      {"llama3-405b", R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 16384,
        "intermediate_size": 53248, "max_position_embeddings": 131072, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 128, "num_hidden_layers": 126,
        "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})"},
      {"mistral-7b", R"({"architectures": ["MistralForCausalLM"], "hidden_act": "silu",
        "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
        "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})"},
      {"qwen2-7b", R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
        "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
        "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072,
        "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})"},
      {"qwen2.5-7b", R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
        "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
        "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072,
        "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})"},
      {"gemma-2-9b", R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
        "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
        "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584, "intermediate_size": 14336,
        "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 16,
        "num_hidden_layers": 42, "num_key_value_heads": 8, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
        "sliding_window_size": null, "vocab_size": 256000})"}};
  return all;
}

/// With other values for some keys; a key whose value is discarded is left out.
ModelConfig model_with(const char* model, const json& changes) {
  json config = json::parse(published().at(model));
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return model_from_hugging_face(config, "config.json");
}

TEST(HuggingFaceConfig, PublishedModelsAreTheBuiltInOnes) {
  for (const auto& [name, text] : published()) {
    ModelConfig model = model_from_hugging_face(json::parse(text), "config.json");
    EXPECT_EQ(naming_of(model), Naming::hugging_face);
    model.validate();
    if (model.rotary.bands) {  // as it was before its context was extended
      model.sequence = model.rotary.original;
      model.rotary = {.base = model.rotary.base};
    }
    model.name = name;
    EXPECT_EQ(to_json(model).dump(), to_json(find_model(name)).dump());
    // What is written of it is what is published, in all keys that both have; but for a window that
    // is off, and for the extended context.
    const json theirs = json::parse(text), ours = to_hugging_face(find_model(name));
    size_t both = 0;
    for (const auto& [key, value] : ours.items()) {
      const bool off = key == "sliding_window" && name.starts_with("qwen");
      if (!theirs.contains(key) || off || name == "llama3-405b") continue;
      EXPECT_EQ(theirs.at(key), value) << name << ' ' << key;
      ++both;
    }
    EXPECT_TRUE(both >= 13 || name == "llama3-405b") << both;
  }
}

/// Counts are those of the papers and the published files: total_size in
/// model.safetensors.index.json, in bytes of bf16, is twice the count.
TEST(HuggingFaceConfig, ParametersAreAsManyAsThePublishedModelsHave) {
  const std::map<std::string, int64_t> counts = {
      {"llama2-7b", 6738415616},        {"llama3-8b", 8030261248},
      {"llama3-70b", 141107412992 / 2}, {"llama3-405b", 811706777600 / 2},
      {"mistral-7b", 7241732096},       {"qwen2-7b", 7615616512},
      {"qwen2.5-7b", 15231233024 / 2},  {"gemma-2-9b", 9241705984}};
  for (const auto& [name, count] : counts) EXPECT_EQ(parameter_count(find_model(name)), count);
}

TEST(HuggingFaceConfig, WhatIsWrittenIsRead) {
  std::vector<ModelConfig> models;
  for (const std::string& name : model_names())
    if (naming_of(find_model(name)) == Naming::hugging_face) models.push_back(find_model(name));
  EXPECT_EQ(models.size(), 11U);
  ModelConfig m = find_model("llama-tiny");
  m.rotary = {.base = 5e5, .factor = 8, .bands = true, .low = 1, .high = 4, .original = 16};
  m.tied = true;
  models.push_back(m);
  m.rotary = {.factor = 2.5};
  m.bias = BiasKind::qkv;
  m.window = 8;
  models.push_back(m);
  m.window_period = 2;
  models.push_back(m);
  m = find_model("gemma2-tiny");
  m.query_scale = 20.5;
  m.attention_softcap = m.window = 0;
  m.tied = false;
  models.push_back(m);
  for (const ModelConfig& model : models) {
    const json config = to_hugging_face(model);
    ModelConfig back = model_from_hugging_face(config, "config.json");
    EXPECT_EQ(to_hugging_face(back), config);
    // The engine's own keys too, but for sizes that it leaves out where they follow from others.
    ModelConfig expected = model;
    expected.kv_heads = model.key_value_heads();
    expected.head_width = model.head_size();
    if (expected.window == 0) expected.window_period = 1;
    back.name = model.name;
    EXPECT_EQ(to_json(back).dump(), to_json(expected).dump());
  }
}

TEST(HuggingFaceConfig, WhatIsLeftOutIsTheArchitectures) {
  const json sizes = {{"num_hidden_layers", 2},        {"hidden_size", 64},
                      {"num_attention_heads", 4},      {"intermediate_size", 96},
                      {"max_position_embeddings", 32}, {"vocab_size", 256}};
  const auto of = [&](const char* type, const json& more = json::object()) {
    json config = sizes;
    config["model_type"] = type;
    config.update(more);
    return model_from_hugging_face(config, "config.json");
  };
  EXPECT_EQ(of("llama").key_value_heads(), 4);
  EXPECT_FALSE(of("llama").tied);
  EXPECT_EQ(of("llama").norm_epsilon, 1e-6);
  EXPECT_EQ(of("mistral").kv_heads, 8);
  EXPECT_EQ(of("mistral").window, 4096);
  EXPECT_EQ(of("mistral", {{"sliding_window", nullptr}}).window, 0);
  EXPECT_EQ(of("mistral", {{"num_key_value_heads", nullptr}}).key_value_heads(), 4);
  EXPECT_EQ(of("qwen2").bias, BiasKind::qkv);
  EXPECT_EQ(of("qwen2").window, 0);
  EXPECT_EQ(of("qwen2").kv_heads, 32);
  EXPECT_EQ(of("qwen2", {{"use_sliding_window", true}, {"max_window_layers", 0}}).window, 4096);
  const ModelConfig gemma = of("gemma2");
  EXPECT_TRUE(gemma.tied && gemma.post_norms && gemma.scaled_embedding);
  EXPECT_EQ(gemma.head_size(), 256);
  EXPECT_EQ(gemma.query_scale, 256);
  EXPECT_EQ(gemma.attention_softcap, 50);
  EXPECT_EQ(gemma.logit_softcap, 30);
  EXPECT_EQ(gemma.kv_heads, 4);
  EXPECT_EQ(gemma.rotary.base, 10000);
  EXPECT_EQ(gemma.window_of(0), 4096);
  EXPECT_EQ(gemma.window_of(1), 0);
  EXPECT_EQ(of("gemma2", {{"attn_logit_softcapping", nullptr}}).attention_softcap, 0);
}

/// Keys that other programs write into a Llama's file, and those of how text is generated.
TEST(HuggingFaceConfig, KeysThatChangeNothingAreAccepted) {
  const ModelConfig model = model_with("llama3-8b", json::object());
  const json harmless = {{"is_llama_config", true},     {"rope_interleaved", false},
                         {"unsloth_version", "2025.1"}, {"temperature", 0.6},
                         {"max_length", 4096},          {"tokenizer_class", "LlamaTokenizer"}};
  for (const auto& [key, value] : harmless.items())
    EXPECT_EQ(to_json(model_with("llama3-8b", {{key, value}})).dump(), to_json(model).dump())
        << key;
}

TEST(HuggingFaceConfig, RotaryPositionsOfOldAndNewFiles) {
  const json bands = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};
  const RotaryConfig expected{
      .base = 5e5, .factor = 8, .bands = true, .low = 1, .high = 4, .original = 8192};
  EXPECT_EQ(model_with("llama3-8b", {{"rope_scaling", bands}}).rotary, expected);
  json all = bands;
  all["rope_theta"] = 5e5;
  EXPECT_EQ(model_with("llama2-7b", {{"rope_parameters", all}}).rotary, expected);
  EXPECT_EQ(
      model_with("llama2-7b", {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}).rotary,
      RotaryConfig{.factor = 2});
  EXPECT_EQ(model_with("llama2-7b",
                       {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10.0}}}})
                .rotary,
            RotaryConfig{.base = 10});
}

TEST(HuggingFaceConfig, RotaryBasesAreAsLargeAsPublishedOnesInBothSpellings) {
  // Gradient's Llama-3-8B-Instruct-4194k has this one.
  EXPECT_EQ(model_with("llama3-8b", {{"rope_theta", 45200000000.0}}).rotary.base, 45.2e9);
  for (const double base : {1e12, 45.2e9}) {
    const json all = {{"rope_type", "default"}, {"rope_theta", base}};
    EXPECT_EQ(model_with("llama2-7b", {{"rope_theta", base}}).rotary.base, base);
    EXPECT_EQ(model_with("llama2-7b", {{"rope_parameters", all}}).rotary.base, base);
    EXPECT_EQ(model_with("llama2-7b", {{"rope_theta", base}, {"rope_parameters", all}}).rotary.base,
              base);
  }
  EXPECT_THROW(model_with("llama3-8b", {{"rope_theta", 1.1e12}}), InputError);
  EXPECT_THROW(model_with("llama2-7b", {{"rope_parameters", {{"rope_theta", 1.1e12}}}}),
               InputError);
}

TEST(HuggingFaceConfig, NewFilesMayLeaveTheBaseToTheArchitectureOrToOldKeys) {
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(model_with("llama2-7b", {{"rope_parameters", linear}}).rotary,
            RotaryConfig{.factor = 2});
  EXPECT_EQ(model_with("llama3-8b", {{"rope_parameters", linear}}).rotary,
            (RotaryConfig{.base = 5e5, .factor = 2}));
  EXPECT_EQ(model_with("llama3-8b", {{"rope_parameters", linear}, {"rope_scaling", linear}}).rotary,
            (RotaryConfig{.base = 5e5, .factor = 2}));
  json with_base = linear;
  with_base["rope_theta"] = 5e5;
  for (const char* silent : {"rope_scaling", "rope_parameters"}) {
    json both = {{"rope_scaling", with_base}, {"rope_parameters", with_base}};
    both[silent] = linear;
    EXPECT_EQ(model_with("llama2-7b", both).rotary, (RotaryConfig{.base = 5e5, .factor = 2}))
        << silent << " has no base";
  }
}

TEST(HuggingFaceConfig, WindowsOfLayers) {
  const auto types = [](int64_t layers, int64_t period) {
    json all = json::array();
    for (int64_t i = 0; i < layers; ++i)
      all.push_back(period > 0 && i % period == 0 ? "sliding_attention" : "full_attention");
    return all;
  };
  EXPECT_EQ(model_with("gemma-2-9b", {{"layer_types", types(42, 2)}}).window_period, 2);
  EXPECT_EQ(model_with("gemma-2-9b", {{"layer_types", types(42, 6)}}).window_period, 6);
  EXPECT_EQ(model_with("gemma-2-9b", {{"layer_types", types(42, 0)}}).window, 0);
  const ModelConfig qwen =
      model_with("qwen2-7b", {{"use_sliding_window", true}, {"max_window_layers", 0}});
  EXPECT_EQ(qwen.window_of(1), 131072);
  EXPECT_EQ(model_with("qwen2-7b", {{"use_sliding_window", true}}).window, 0) << "no layer has it";
}

/// By the name of a key of the file.
void expect_refused(const char* model, const char* key, const json& changes) {
  EXPECT_THAT([&] { model_with(model, changes); },
              ::testing::ThrowsMessage<InputError>(
                  ::testing::HasSubstr(std::string("config.json: ") + key)));
}

TEST(HuggingFaceConfig, WhatIsSaidTwiceMustBeTheSame) {
  expect_refused("llama3-8b", "model_type", {{"architectures", {"MistralForCausalLM"}}});
  expect_refused("llama3-8b", "model_type", {{"model_type", "mistral"}});
  const json all = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  expect_refused("llama3-8b", "rope_parameters.rope_theta", {{"rope_parameters", all}});
  expect_refused("llama3-8b", "rope_scaling.rope_theta", {{"rope_scaling", all}});
  const json other = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  expect_refused("llama2-7b", "rope_parameters.rope_theta",
                 {{"rope_scaling", all}, {"rope_parameters", other}});
  const json linear = {{"type", "linear"}, {"factor", 2.0}};
  expect_refused("llama2-7b", "rope_parameters",
                 {{"rope_scaling", linear}, {"rope_parameters", all}});
  expect_refused(
      "llama2-7b", "rope_scaling.type",
      {{"rope_scaling", {{"rope_type", "llama3"}, {"type", "linear"}, {"factor", 2.0}}}});
  expect_refused("llama2-7b", "rope_scaling.factor",
                 {{"rope_scaling", {{"rope_type", "default"}, {"factor", 2.0}}}});
}

TEST(HuggingFaceConfig, LayersHaveNoWindowsThatTheirModelHasNot) {
  const json sliding(32, "sliding_attention"), full(32, "full_attention");
  expect_refused("llama3-8b", "layer_types", {{"layer_types", sliding}});
  expect_refused("llama3-8b", "layer_types", {{"layer_types", {"full_attention"}}});
  expect_refused("mistral-7b", "layer_types",
                 {{"layer_types", sliding}, {"sliding_window", nullptr}});
  EXPECT_EQ(model_with("llama3-8b", {{"layer_types", full}}).window, 0);
  EXPECT_EQ(model_with("mistral-7b", {{"layer_types", full}}).window, 0);
  EXPECT_EQ(model_with("mistral-7b", {{"layer_types", sliding}}).window_of(1), 4096);
  // Its windows are switched off.
  expect_refused("qwen2-7b", "layer_types", {{"layer_types", json(28, "sliding_attention")}});
}

TEST(HuggingFaceConfig, WhatWouldBeAnotherModelIsRefusedByName) {
  const auto refused = [](const char* model, const char* key, const json& value) {
    expect_refused(model, key, {{key, value}});
  };
  refused("llama3-8b", "architectures", {"PhiForCausalLM"});
  refused("llama3-8b", "architectures", {"LlamaForCausalLM", "LlamaModel"});
  refused("llama3-8b", "attention_bias", true);
  refused("llama3-8b", "mlp_bias", true);
  refused("llama3-8b", "hidden_act", "gelu");
  refused("llama3-8b", "attention_dropout", 0.1);
  refused("llama3-8b", "hidden_size", "big");
  refused("llama3-8b", "sliding_window", 100);
  refused("llama3-8b", "rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}});
  refused("llama3-8b", "rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}});
  refused("llama3-8b", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}, {"beta_fast", 32}});
  refused("llama3-8b", "quantization_config", {{"bits", 4}});
  refused("llama3-8b", "rope_interleaved", true);
  refused("llama3-8b", "is_decoder", true);
  refused("llama3-8b", "final_logit_softcapping", 30.0);
  refused("gemma-2-9b", "hidden_activation", "gelu");
  refused("gemma-2-9b", "query_pre_attn_scalar", 0.0);
  refused("gemma-2-9b", "use_bidirectional_attention", true);
  refused("gemma-2-9b", "layer_types", {"sliding_attention"});
  refused("qwen2-7b", "use_sliding_window", 1);
  json config = json::parse(published().at("qwen2-7b"));
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 14;
  EXPECT_THROW(model_from_hugging_face(config, "config.json"), InputError);
  config.erase("vocab_size");
  EXPECT_THROW(model_from_hugging_face(config, "config.json"), InputError);
}

}  // namespace
}  // namespace frugal::harness
