#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/config.h"

namespace frugal {

class JsonObject;

/// The keys are the project's terms: layers, hidden_size, attention_heads, sequence_length,
/// vocabulary_size, dropout, causal, objective, name.
nlohmann::json to_json(const ModelConfig& model);
/// Reads what to_json() writes; dropout (0.1), causal (true), objective (next-token) and name may
/// be left out. Throws InputError that names file and key.
ModelConfig model_from_json(const JsonObject& object);

nlohmann::json to_json(const RunConfig& config);
/// Records from before there was a choice have no "attention": separate.
RunConfig run_config_from_json(const JsonObject& object);

}  // namespace frugal
