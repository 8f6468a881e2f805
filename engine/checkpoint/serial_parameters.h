#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model_config.h"

namespace frugal::engine {

/// A parameter as all ranks have it together.
struct SerialParameter {
  std::string name;            ///< Parameter::name
  std::vector<int64_t> shape;  ///< Parameter::serial_shape
};

/// Lists all parameters of a model, in the order in which data goes through them; a token table
/// that is the output layer too stands once.
std::vector<SerialParameter> serial_parameters(const ModelConfig& model);

/// Number of elements of all parameters of a model.
int64_t parameter_count(const ModelConfig& model);

}  // namespace frugal::engine
