#pragma once
#include <nlohmann/json.hpp>

#include "engine/model_config.h"

namespace frugal {

/// {"base", "factor", "bands": {"low", "high", "original"}}; the last two may be left out.
nlohmann::json to_json(const RotaryConfig& rotary);
/// Reads what to_json() writes. Throws InputError.
RotaryConfig rotary_of(const nlohmann::json& json);

}  // namespace frugal
