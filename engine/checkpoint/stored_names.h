#pragma once
#include <string>
#include <vector>

#include "engine/checkpoint/serial_parameters.h"

namespace frugal::engine {

/// A tensor of a file that is some rows of a parameter: `block` rows at a time, the first ones from
/// row `first` of the parameter on and the next ones `stride` rows further.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t block = 0, stride = 0, first = 0;
};

/// A parameter, and what of it stands where in a file. Its tensors cover all its rows once.
struct StoredParameter {
  std::string name;            ///< Parameter::name
  std::vector<int64_t> shape;  ///< Parameter::serial_shape
  std::vector<StoredTensor> tensors;
};

/// How files of weights name a model: as Hugging Face's library does, or as this one.
enum class Naming : uint8_t { engine, hugging_face };

/// Hugging Face's for what LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and
/// Gemma2ForCausalLM can be, whatever its sizes; the engine's for all else.
Naming naming_of(const ModelConfig& model);

/// In the order of serial_parameters().
///
/// Where Hugging Face has three maps to queries, keys and values the engine has one, ordered by the
/// heads of keys and values: each with the G queries that share it, d rows per head. A gated MLP's
/// gate and up are one as well, the gate first. Rotated pairs are (i, i + d/2) in both.
std::vector<StoredParameter> stored_parameters(const ModelConfig& model);

}  // namespace frugal::engine
