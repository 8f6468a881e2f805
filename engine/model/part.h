#pragma once
#include <numeric>

#include "engine/config.h"

namespace frugal::engine {

/// Some layers of a model that follow each other: what one chunk of a pipeline's stage computes.
struct ModelPart {
  int64_t first_layer = 0, layers = 0;
  bool first = true;  ///< begins with the embedding
  bool last = true;   ///< ends with the output head
  /// True if the stage of one end of the model has the other end, too, as another part.
  bool beside_other_end = false;

  /// True if one stage has both ends, and with them a table that both use.
  bool ends_meet() const { return (first && last) || beside_other_end; }
  static ModelPart whole(const RunConfig& config) { return {.layers = config.model.layers}; }
  /// A chunk of a stage: one of p · chunks equal parts, or of RunConfig::stage_layers.
  static ModelPart of(const RunConfig& config, int stage, int chunk) {
    const PartLayout layout = config.part_layout();
    const int index = layout.part_at({stage, chunk});
    ModelPart part{.layers = config.model.layers / layout.parts(),
                   .first = index == 0,
                   .last = index == layout.parts() - 1,
                   .beside_other_end = layout.parts() > 1 && layout.last_stage() == 0};
    part.first_layer = index * part.layers;
    const std::vector<int64_t>& uneven = config.stage_layers;
    if (uneven.empty()) return part;
    part.first_layer = std::accumulate(uneven.begin(), uneven.begin() + index, int64_t{0});
    part.layers = uneven.at(static_cast<size_t>(index));
    return part;
  }
  /// The chunks of a stage.
  static std::vector<ModelPart> chunks_of(const RunConfig& config, int stage) {
    std::vector<ModelPart> chunks;
    for (int chunk = 0; chunk < config.chunks; ++chunk) chunks.push_back(of(config, stage, chunk));
    return chunks;
  }
  /// All layers of a stage as one part: what it has between batches.
  static ModelPart all_of_stage(const RunConfig& config, int stage) {
    ModelPart all = of(config, stage, 0);
    for (int chunk = 1; chunk < config.chunks; ++chunk) {
      const ModelPart part = of(config, stage, chunk);
      all.layers += part.layers;
      all.last |= part.last;
    }
    return all;
  }
};

}  // namespace frugal::engine
