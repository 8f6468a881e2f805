#pragma once
#include <string>
#include <vector>

#include "engine/config.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// A model by name, or from a JSON file or a folder with a config.json where the name contains a
/// slash, ends in .json or is a folder's. The file's keys are the project's own
/// (harness/settings/config_json.h) or those of Hugging Face's library
/// (harness/huggingface/hugging_face_config.h). Throws InputError; for an unknown name with the
/// nearest ones.
ModelConfig find_model(const std::string& name_or_path);

/// The models of korthikanti2022 (table 3), of pipedream2bw2021 and of mst2024, the smallest and
/// the largest GPT-2, and small ones for a laptop.
std::vector<std::string> model_names();

}  // namespace frugal::harness
