#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/model_config.h"
#include "harness/huggingface/hugging_face_reader.h"

namespace frugal::harness {

/// Rotary positions of a config.json: old files have rope_theta and rope_scaling, new ones all of
/// it in rope_parameters. Throws InputError that names the key, also where a file says it twice and
/// not the same.
RotaryConfig rotary_of(const HuggingFaceReader& in);

/// rope_scaling as old files have it; null where frequencies are not divided.
nlohmann::json rope_scaling_of(const RotaryConfig& rotary);

}  // namespace frugal::harness
