#include "harness/config_json.h"

#include <nlohmann/json.hpp>

#include "harness/names.h"
#include "kernels/support/json_file.h"

namespace frugal {

using nlohmann::json;

json to_json(const ModelConfig& model) {
  return {{"name", model.name},
          {"layers", model.layers},
          {"hidden_size", model.hidden},
          {"attention_heads", model.heads},
          {"sequence_length", model.sequence},
          {"vocabulary_size", model.vocabulary},
          {"dropout", model.dropout},
          {"causal", model.causal},
          {"objective", name_of(model.objective)}};
}

ModelConfig model_from_json(const JsonObject& object) {
  object.allow_only({"name", "layers", "hidden_size", "attention_heads", "sequence_length",
                     "vocabulary_size", "dropout", "causal", "objective"});
  ModelConfig model;
  model.name = object.optional<std::string>("name", "");
  model.layers = object.integer("layers", 1);
  model.hidden = object.integer("hidden_size", 1);
  model.heads = object.integer("attention_heads", 1);
  model.sequence = object.integer("sequence_length", 1);
  model.vocabulary = object.integer("vocabulary_size", 1);
  model.dropout = object.has("dropout") ? object.number("dropout", 0, 1) : model.dropout;
  model.causal = object.optional<bool>("causal", model.causal);
  if (object.has("objective")) model.objective = named<Objective>(object, "objective");
  return model;
}

json to_json(const RunConfig& config) {
  return {{"model", to_json(config.model)},
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
  if (object.has("schedule")) config.schedule = named<ScheduleKind>(object, "schedule");
  config.keep_outputs = object.optional<bool>("keep_outputs", false);
  if (object.has("kept_microbatches"))
    config.kept_microbatches = object.integer("kept_microbatches", 0, 1 << 20);
  config.recompute = named<Recompute>(object, "recompute");
  if (object.has("attention")) config.attention = named<AttentionKind>(object, "attention");
  config.stored_masks = object.require<bool>("stored_masks");
  config.type = named<DType>(object, "type");
  config.micro_batch = object.integer("microbatch_size", 1);
  config.microbatches = object.integer("microbatches", 1);
  config.seed = static_cast<uint64_t>(object.integer("seed", 0));
  return config;
}

}  // namespace frugal
