#include "harness/huggingface/hugging_face_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "harness/huggingface/hugging_face_reader.h"
#include "harness/huggingface/hugging_face_rotary.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// What the library takes where a file does not say.
struct Architecture {
  std::string_view name, type;
  bool tied = false;
  BiasKind bias = BiasKind::none;
  int64_t kv_heads = 0;  ///< 0: as many as of queries
  int64_t head_size = 0;
  int64_t window = 0;
  bool gemma = false;
};

constexpr std::array architectures = {
    Architecture{.name = "LlamaForCausalLM", .type = "llama"},
    Architecture{.name = "MistralForCausalLM", .type = "mistral", .kv_heads = 8, .window = 4096},
    Architecture{.name = "Qwen2ForCausalLM",
                 .type = "qwen2",
                 .bias = BiasKind::qkv,
                 .kv_heads = 32,
                 .window = 4096},
    Architecture{.name = "Gemma2ForCausalLM",
                 .type = "gemma2",
                 .tied = true,
                 .kv_heads = 4,
                 .head_size = 256,
                 .window = 4096,
                 .gemma = true}};

/// By the name that a key gives it.
const Architecture& architecture_of(const HuggingFaceReader& in, const char* key,
                                    std::string_view Architecture::*member,
                                    const std::string& name) {
  std::vector<std::string_view> names;
  for (const Architecture& known : architectures) {
    if (name == known.*member) return known;
    names.push_back(known.*member);
  }
  in.object().fail(
      key, fmt::format("is {}; known are {}", in.object().at(key).dump(), fmt::join(names, ", ")));
}

const Architecture& architecture_of(const HuggingFaceReader& in) {
  const char *listed = "architectures", *type = "model_type";
  if (!in.has(listed))
    return architecture_of(in, type, &Architecture::type, in.object().require<std::string>(type));
  const auto names = in.object().require<std::vector<std::string>>(listed);
  const Architecture& architecture =
      architecture_of(in, listed, &Architecture::name, fmt::format("{}", fmt::join(names, ", ")));
  if (in.has(type) && in.object().require<std::string>(type) != architecture.type)
    in.object().fail(
        type,
        fmt::format("is {}, and {} ({}) is {}; remove the one that does not hold",
                    in.object().at(type).dump(), architecture.name, listed, architecture.type));
  return architecture;
}

/// Every how many layers one has a window, from the first on; none where they are otherwise.
std::optional<int64_t> period_of(const std::vector<std::string>& types) {
  for (size_t period = 1; period <= types.size(); ++period) {
    bool fits = true;
    for (size_t i = 0; fits && i < types.size(); ++i)
      fits = types[i] == (i % period == 0 ? "sliding_attention" : "full_attention");
    if (fits) return static_cast<int64_t>(period);
  }
  return std::nullopt;
}

void read_layer_types(const HuggingFaceReader& in, ModelConfig& model) {
  const auto types = in.object().require<std::vector<std::string>>("layer_types");
  const bool full =
      std::all_of(types.begin(), types.end(), [](const auto& t) { return t == "full_attention"; });
  const auto period = period_of(types);
  if (static_cast<int64_t>(types.size()) != model.layers || (!period && !full))
    in.object().fail("layer_types",
                     "must say for each layer sliding_attention or full_attention, the first and "
                     "every n-th sliding, or none");
  if (full)
    model.window = 0;
  else if (model.window == 0)
    in.object().fail(
        "layer_types",
        "has sliding_attention, and the model has no window for it; give full_attention");
  model.window_period = period.value_or(1);
}

void read_windows(const HuggingFaceReader& in, const Architecture& architecture,
                  ModelConfig& model) {
  model.window =
      static_cast<int64_t>(in.nullable("sliding_window", static_cast<double>(architecture.window)));
  model.window_period = architecture.gemma ? 2 : 1;
  if (architecture.type == "qwen2") {
    const int64_t first = in.has("max_window_layers") ? in.object().integer("max_window_layers", 0)
                                                      : 28;  // layers before it have no window
    if (!in.flag("use_sliding_window", false) || (first >= model.layers && !in.has("layer_types")))
      model.window = 0;
    else if (first > 0 && !in.has("layer_types"))
      in.object().fail("max_window_layers",
                       fmt::format("is {} of {} layers; windows in all layers or in none are known",
                                   first, model.layers));
  }
  if (in.has("layer_types")) read_layer_types(in, model);
  if (model.window == 0) model.window_period = 1;
  // The first layer of a period has the window, whatever layers the model has not.
  model.window_period = std::min(model.window_period, model.layers);
}

void read_gemma(const HuggingFaceReader& in, ModelConfig& model) {
  in.only("hidden_activation", "gelu_pytorch_tanh");
  in.only("hidden_act", "gelu_pytorch_tanh");
  model.mlp = MlpKind::geglu;
  model.post_norms = model.scaled_embedding = true;
  model.query_scale = in.number("query_pre_attn_scalar", 256);
  if (model.query_scale <= 0)
    in.object().fail("query_pre_attn_scalar",
                     "must be above 0: attention scores are divided by its root");
  model.attention_softcap = in.nullable("attn_logit_softcapping", 50);
  model.logit_softcap = in.nullable("final_logit_softcapping", 30);
}

/// What the other architectures do not read may stand in their files, but not mean anything.
void refuse_gemmas(const HuggingFaceReader& in) {
  for (const char* key :
       {"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"})
    if (in.has(key)) in.object().fail(key, "is there; only Gemma2ForCausalLM has it");
}

}  // namespace

bool is_hugging_face(const json& config) {
  return config.is_object() && (config.contains("architectures") || config.contains("model_type"));
}

ModelConfig model_from_hugging_face(const json& config, const std::string& file) {
  const HuggingFaceReader in(config, file);
  const Architecture& architecture = architecture_of(in);
  in.check_keys();
  const JsonObject& object = in.object();
  ModelConfig model;
  model.layers = object.integer("num_hidden_layers", 1);
  model.hidden = object.integer("hidden_size", 1);
  model.heads = object.integer("num_attention_heads", 1);
  model.sequence = object.integer("max_position_embeddings", 1);
  model.vocabulary = object.integer("vocab_size", 1);
  model.intermediate = object.integer("intermediate_size", 1);
  model.dropout = 0;
  const int64_t kv = object.has("num_key_value_heads") ? 0 : architecture.kv_heads;
  model.kv_heads = in.integer("num_key_value_heads", kv);
  model.head_width = in.integer("head_dim", architecture.head_size);
  model.norm = NormKind::rms;
  model.norm_epsilon = in.number("rms_norm_eps", 1e-6);
  model.bias = architecture.bias;
  model.positions = PositionKind::rotary;
  model.rotary = rotary_of(in);
  model.tied = in.flag("tie_word_embeddings", architecture.tied);
  in.only("attention_bias", false);
  in.only("mlp_bias", false);
  if (in.number("attention_dropout", 0) != 0)
    object.fail("attention_dropout",
                "is not 0; the engine's dropout is of hidden states too: set it to 0, and give "
                "--dropout where it is wanted");
  if (architecture.gemma) {
    read_gemma(in, model);
  } else {
    in.only("hidden_act", "silu");
    model.mlp = MlpKind::swiglu;
    refuse_gemmas(in);
  }
  if (architecture.window == 0 && in.has("sliding_window"))
    object.fail("sliding_window", "is there; LlamaForCausalLM has none, see MistralForCausalLM");
  read_windows(in, architecture, model);
  return model;
}

namespace {

const Architecture& architecture_of(const ModelConfig& model) {
  const std::string_view type = model.post_norms              ? "gemma2"
                                : model.bias == BiasKind::qkv ? "qwen2"
                                : model.window > 0            ? "mistral"
                                                              : "llama";
  return *std::find_if(architectures.begin(), architectures.end(),
                       [&](const Architecture& known) { return known.type == type; });
}

/// The library's type of some values is integer.
json whole_or_not(double value) {
  return value == std::floor(value) ? json(static_cast<int64_t>(value)) : json(value);
}

json null_or(double value) { return value == 0 ? json(nullptr) : json(value); }

/// Which layers have a window, for the architectures whose library asks for it.
json layer_types(const ModelConfig& model) {
  json types = json::array();
  for (int64_t i = 0; i < model.layers; ++i)
    types.push_back(model.window_of(i) > 0 ? "sliding_attention" : "full_attention");
  return types;
}

}  // namespace

json to_hugging_face(const ModelConfig& model) {
  const Architecture& architecture = architecture_of(model);
  json config = {{"architectures", {architecture.name}},
                 {"model_type", architecture.type},
                 {"num_hidden_layers", model.layers},
                 {"hidden_size", model.hidden},
                 {"num_attention_heads", model.heads},
                 {"num_key_value_heads", model.key_value_heads()},
                 {"head_dim", model.head_size()},
                 {"intermediate_size", model.intermediate_size()},
                 {"vocab_size", model.vocabulary},
                 {"max_position_embeddings", model.sequence},
                 {"rms_norm_eps", model.norm_epsilon},
                 {"rope_theta", model.rotary.base},
                 {"rope_scaling", rope_scaling_of(model.rotary)},
                 {"tie_word_embeddings", model.tied},
                 {"attention_dropout", 0.0}};
  if (model.window > 0) config["sliding_window"] = model.window;
  if (architecture.gemma || architecture.type == "qwen2" || model.window_period > 1)
    config["layer_types"] = layer_types(model);
  if (architecture.type == "qwen2") config["use_sliding_window"] = model.window > 0;
  if (model.window == 0 && architecture.window > 0) config["sliding_window"] = nullptr;
  if (!architecture.gemma) {
    config["hidden_act"] = "silu";
    return config;
  }
  config["hidden_activation"] = "gelu_pytorch_tanh";
  const double scale =
      model.query_scale > 0 ? model.query_scale : static_cast<double>(model.head_size());
  config["query_pre_attn_scalar"] = whole_or_not(scale);
  config["attn_logit_softcapping"] = null_or(model.attention_softcap);
  config["final_logit_softcapping"] = null_or(model.logit_softcap);
  return config;
}

}  // namespace frugal::harness
