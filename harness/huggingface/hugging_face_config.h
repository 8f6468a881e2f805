#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/model_config.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// Whether a JSON file is a model's config.json of Hugging Face's library: it says which of the
/// library's architectures it is for.
bool is_hugging_face(const nlohmann::json& config);

/// The model of a config.json for LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or
/// Gemma2ForCausalLM. What a file leaves out is as that architecture has it; the sequence is as
/// long as max_position_embeddings. Throws InputError that names `file` and the key for another
/// architecture, for a value that makes a model of it which the engine does not have, and for a key
/// that is not known and might.
ModelConfig model_from_hugging_face(const nlohmann::json& config, const std::string& file);

/// The config.json of a model whose weights have Hugging Face's names
/// (engine/checkpoint/stored_weights.h).
nlohmann::json to_hugging_face(const ModelConfig& model);

}  // namespace frugal::harness
