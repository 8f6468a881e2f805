#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/config.h"
#include "harness/namespace.h"

namespace frugal::kernels {
class JsonObject;
}  // namespace frugal::kernels

namespace frugal::harness {

/// Its fields (harness/settings/field.h) by their keys; what not every model says only where it is
/// not as it is by default.
nlohmann::json to_json(const ModelConfig& model);
/// Reads what to_json() writes; what is not required may be left out. Throws InputError that names
/// file and key.
ModelConfig model_from_json(const JsonObject& object);

/// JSON of a configuration, with its "model" and "global_batch".
nlohmann::json to_json(const RunConfig& config);
/// What records from before there was a choice do not have, is as it is by default.
RunConfig run_config_from_json(const JsonObject& object);

/// JSON Schemas of both, and of what --config reads.
nlohmann::json model_schema();
nlohmann::json run_config_schema();
nlohmann::json configuration_file_schema();

}  // namespace frugal::harness
