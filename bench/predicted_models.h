#pragma once
#include <string>
#include <vector>

#include "bench/namespace.h"
#include "engine/config.h"

namespace frugal::bench {

/// What is predicted: a layer, forward and backward, or a training step.
struct PredictedModel {
  std::string name;
  bool layer = true;
  RunConfig config;
};

/// Layers: table 4 of korthikanti2022 at 1/8, whole and alone, and other proportions. Steps: of
/// models with few layers and with many, a small vocabulary and a large one.
std::vector<PredictedModel> predicted_models();

}  // namespace frugal::bench
