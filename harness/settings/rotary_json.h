#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/model_config.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// {"base", "factor", "bands": {"low", "high", "original"}}; the last two may be left out.
nlohmann::json to_json(const RotaryConfig& rotary);
/// Reads what to_json() writes. Throws InputError that begins with `where`, a file or a flag.
RotaryConfig rotary_of(const nlohmann::json& json, const std::string& where);

}  // namespace frugal::harness
