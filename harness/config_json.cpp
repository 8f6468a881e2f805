#include "harness/config_json.h"

#include <nlohmann/json.hpp>

#include "harness/names.h"
#include "kernels/support/json_file.h"

namespace frugal {

using nlohmann::json;

namespace {

/// Adds what is not as it is by default, so that records of models that know nothing of a key do
/// not have it.
template <class T>
void add(json& object, const char* key, const T& value, const T& usual) {
  if (value == usual) return;
  if constexpr (std::is_enum_v<T>)
    object[key] = name_of(value);
  else
    object[key] = value;
}

/// The enumerator of a key, where it is there.
template <class E>
void read(const JsonObject& object, const char* key, E& value) {
  if (object.has(key)) value = named<E>(object, key);
}

json to_json(const RotaryConfig& rotary) {
  json object = {{"base", rotary.base}};
  const RotaryConfig usual;
  add(object, "factor", rotary.factor, usual.factor);
  if (rotary.bands)
    object["bands"] = {{"low", rotary.low}, {"high", rotary.high}, {"original", rotary.original}};
  return object;
}

RotaryConfig rotary_from_json(const JsonObject& object) {
  object.allow_only({"base", "factor", "bands"});
  RotaryConfig rotary;
  rotary.base = object.number("base", 1, 1e12);
  if (object.has("factor")) rotary.factor = object.number("factor", 1, 1e6);
  if (object.has("bands")) {
    const JsonObject bands = object.object("bands");
    bands.allow_only({"low", "high", "original"});
    rotary.bands = true;
    rotary.low = bands.number("low", 0, 1e6);
    rotary.high = bands.number("high", 0, 1e6);
    rotary.original = bands.integer("original", 1);
  }
  return rotary;
}

/// What makes another family than GPT-2 of a model.
void add_family(json& object, const ModelConfig& model) {
  const ModelConfig usual;
  add(object, "key_value_heads", model.kv_heads, usual.kv_heads);
  add(object, "head_size", model.head_width, usual.head_width);
  add(object, "intermediate_size", model.intermediate, usual.intermediate);
  add(object, "norm", model.norm, usual.norm);
  add(object, "norm_epsilon", model.norm_epsilon, usual.norm_epsilon);
  add(object, "post_norms", model.post_norms, usual.post_norms);
  add(object, "mlp", model.mlp, usual.mlp);
  add(object, "bias", model.bias, usual.bias);
  add(object, "positions", model.positions, usual.positions);
  if (model.positions == PositionKind::rotary) object["rotary"] = to_json(model.rotary);
  add(object, "tied_embeddings", model.tied, usual.tied);
  add(object, "scaled_embedding", model.scaled_embedding, usual.scaled_embedding);
  add(object, "query_scale", model.query_scale, usual.query_scale);
  add(object, "attention_softcap", model.attention_softcap, usual.attention_softcap);
  add(object, "logit_softcap", model.logit_softcap, usual.logit_softcap);
  add(object, "window", model.window, usual.window);
  add(object, "window_period", model.window_period, usual.window_period);
}

void read_family(const JsonObject& object, ModelConfig& model) {
  const auto integer = [&](const char* key, int64_t& value) {
    if (object.has(key)) value = object.integer(key, 0);
  };
  const auto number = [&](const char* key, double& value) {
    if (object.has(key)) value = object.number(key, 0, 1e9);
  };
  integer("key_value_heads", model.kv_heads);
  integer("head_size", model.head_width);
  integer("intermediate_size", model.intermediate);
  read(object, "norm", model.norm);
  number("norm_epsilon", model.norm_epsilon);
  model.post_norms = object.optional<bool>("post_norms", model.post_norms);
  read(object, "mlp", model.mlp);
  read(object, "bias", model.bias);
  read(object, "positions", model.positions);
  if (object.has("rotary")) model.rotary = rotary_from_json(object.object("rotary"));
  model.tied = object.optional<bool>("tied_embeddings", model.tied);
  model.scaled_embedding = object.optional<bool>("scaled_embedding", model.scaled_embedding);
  number("query_scale", model.query_scale);
  number("attention_softcap", model.attention_softcap);
  number("logit_softcap", model.logit_softcap);
  integer("window", model.window);
  integer("window_period", model.window_period);
}

}  // namespace

json to_json(const ModelConfig& model) {
  json object = {{"name", model.name},
                 {"layers", model.layers},
                 {"hidden_size", model.hidden},
                 {"attention_heads", model.heads},
                 {"sequence_length", model.sequence},
                 {"vocabulary_size", model.vocabulary},
                 {"dropout", model.dropout},
                 {"causal", model.causal},
                 {"objective", name_of(model.objective)}};
  add_family(object, model);
  return object;
}

ModelConfig model_from_json(const JsonObject& object) {
  object.allow_only({"name",
                     "layers",
                     "hidden_size",
                     "attention_heads",
                     "sequence_length",
                     "vocabulary_size",
                     "dropout",
                     "causal",
                     "objective",
                     "key_value_heads",
                     "head_size",
                     "intermediate_size",
                     "norm",
                     "norm_epsilon",
                     "post_norms",
                     "mlp",
                     "bias",
                     "positions",
                     "rotary",
                     "tied_embeddings",
                     "scaled_embedding",
                     "query_scale",
                     "attention_softcap",
                     "logit_softcap",
                     "window",
                     "window_period"});
  ModelConfig model;
  model.name = object.optional<std::string>("name", "");
  model.layers = object.integer("layers", 1);
  model.hidden = object.integer("hidden_size", 1);
  model.heads = object.integer("attention_heads", 1);
  model.sequence = object.integer("sequence_length", 1);
  model.vocabulary = object.integer("vocabulary_size", 1);
  model.dropout = object.has("dropout") ? object.number("dropout", 0, 1) : model.dropout;
  model.causal = object.optional<bool>("causal", model.causal);
  read(object, "objective", model.objective);
  read_family(object, model);
  return model;
}

json to_json(const RunConfig& config) {
  json object = {{"model", to_json(config.model)},
                 {"tensor_parallel_size", config.tensor_parallel},
                 {"sequence_parallel", config.sequence_parallel},
                 {"pipeline_parallel_size", config.pipeline_parallel},
                 {"chunks", config.chunks},
                 {"data_parallel_size", config.data_parallel},
                 {"schedule", name_of(config.schedule)},
                 {"recompute", name_of(config.recompute)},
                 {"attention", name_of(config.attention)},
                 {"stored_masks", config.stored_masks},
                 {"type", name_of(config.type)},
                 {"microbatch_size", config.micro_batch},
                 {"microbatches", config.microbatches},
                 {"global_batch", config.micro_batch * config.batch_microbatches()},
                 {"keep_outputs", config.keep_outputs},
                 {"kept_microbatches", config.kept_microbatches},
                 {"seed", config.seed}};
  const RunConfig usual;
  if (config.context_parallel > 1) {
    object["context_parallel_size"] = config.context_parallel;
    object["context"] = name_of(config.context);
  }
  add(object, "precision", config.precision, usual.precision);
  add(object, "mlp_chunks", config.mlp_chunks, usual.mlp_chunks);
  add(object, "head_chunks", config.head_chunks, usual.head_chunks);
  add(object, "head_tiles", config.head_tiles, usual.head_tiles);
  add(object, "step_in_backward", config.step_in_backward, usual.step_in_backward);
  add(object, "offload", config.offload, usual.offload);
  add(object, "offload_optimizer", config.offload_optimizer, usual.offload_optimizer);
  add(object, "narrow_reduction", config.narrow_reduction, usual.narrow_reduction);
  add(object, "narrow_logits", config.narrow_logits, usual.narrow_logits);
  add(object, "overwrite_gradients", config.overwrite_gradients, usual.overwrite_gradients);
  return object;
}

RunConfig run_config_from_json(const JsonObject& object) {
  RunConfig config;
  config.model = model_from_json(object.object("model"));
  config.tensor_parallel = static_cast<int>(object.integer("tensor_parallel_size", 1, 1 << 20));
  config.sequence_parallel = object.require<bool>("sequence_parallel");
  // Records from before there were pipelines do not have these.
  const auto size = [&](std::string_view key) {
    return object.has(key) ? static_cast<int>(object.integer(key, 1, 1 << 20)) : 1;
  };
  config.pipeline_parallel = size("pipeline_parallel_size");
  config.chunks = size("chunks");
  config.data_parallel = size("data_parallel_size");
  config.context_parallel = size("context_parallel_size");
  read(object, "context", config.context);
  read(object, "precision", config.precision);
  const auto parts = [&](const char* key, int64_t& value) {
    if (object.has(key)) value = object.integer(key, 0);
  };
  parts("mlp_chunks", config.mlp_chunks);
  parts("head_chunks", config.head_chunks);
  parts("head_tiles", config.head_tiles);
  config.step_in_backward = object.optional<bool>("step_in_backward", false);
  config.offload = object.optional<bool>("offload", false);
  config.offload_optimizer = object.optional<bool>("offload_optimizer", false);
  config.narrow_reduction = object.optional<bool>("narrow_reduction", false);
  config.narrow_logits = object.optional<bool>("narrow_logits", false);
  config.overwrite_gradients = object.optional<bool>("overwrite_gradients", false);
  read(object, "schedule", config.schedule);
  config.keep_outputs = object.optional<bool>("keep_outputs", false);
  if (object.has("kept_microbatches"))
    config.kept_microbatches = object.integer("kept_microbatches", 0, 1 << 20);
  config.recompute = named<Recompute>(object, "recompute");
  read(object, "attention", config.attention);
  config.stored_masks = object.require<bool>("stored_masks");
  config.type = named<DType>(object, "type");
  config.micro_batch = object.integer("microbatch_size", 1);
  config.microbatches = object.integer("microbatches", 1);
  config.seed = static_cast<uint64_t>(object.integer("seed", 0));
  return config;
}

}  // namespace frugal
