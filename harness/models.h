#pragma once
#include <string>
#include <vector>

#include "engine/config.h"

namespace frugal {

/// A model by name, or from a JSON file where the name contains a slash or ends in .json (its keys:
/// harness/config_json.h). Throws InputError; for an unknown name with the nearest ones.
ModelConfig find_model(const std::string& name_or_path);

/// The models of korthikanti2022 (table 3) and of pipedream2bw2021, the smallest and the largest
/// GPT-2, and small ones for a laptop.
std::vector<std::string> model_names();

}  // namespace frugal
