#pragma once
#include <numeric>

#include "engine/config.h"

namespace frugal::engine {

/// Some layers of a model that follow each other: what one chunk of a pipeline's stage computes.
struct ModelPart {
  int64_t first_layer = 0, layers = 0;
  bool first = true;  ///< begins with the embedding
  bool last = true;   ///< ends with the output head

  static ModelPart whole(const RunConfig& config) { return {0, config.model.layers, true, true}; }
  /// Chunk `chunk` of a stage is part chunk · p + stage of p · chunks, equal ones or those of
  /// RunConfig::stage_layers.
  static ModelPart of(const RunConfig& config, int stage, int chunk) {
    const int parts = config.pipeline_parallel * config.chunks;
    const int index = chunk * config.pipeline_parallel + stage;
    const std::vector<int64_t>& uneven = config.stage_layers;
    if (uneven.empty()) {
      const int64_t layers = config.model.layers / parts;
      return {index * layers, layers, index == 0, index == parts - 1};
    }
    return {std::accumulate(uneven.begin(), uneven.begin() + index, int64_t{0}),
            uneven.at(static_cast<size_t>(index)), index == 0, index == parts - 1};
  }
};

}  // namespace frugal::engine
