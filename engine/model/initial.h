#pragma once
#include <cmath>

#include "engine/model/parameter.h"

/// How GPT-2 and Megatron-LM start their weights: N(0, 0.02²), and smaller by √(2L) where a layer
/// adds to the residual.
namespace frugal::engine::initial {

inline Initial weight() { return {.deviation = 0.02F}; }

inline Initial residual_weight(const ModelConfig& model) {
  return {.deviation = 0.02F / std::sqrt(2.0F * static_cast<float>(model.layers))};
}

}  // namespace frugal::engine::initial
