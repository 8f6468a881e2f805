#pragma once
#include <vector>

#include "engine/model_config.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// The models of mst2024, with norms, rotary positions and windows as their published
/// configurations have them, and small ones of their families.
std::vector<ModelConfig> llama_models();

}  // namespace frugal::harness
