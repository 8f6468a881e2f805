#pragma once
#include <vector>

#include "engine/plan/part_cost.h"

namespace frugal::engine {

/// Layers of each part of the model (RunConfig::stage_layers), divided so that the stage that
/// computes longest for a microbatch does so as short as it can: the embedding's and the head's
/// time count. Stages that are equal after all: of the later ones, which have fewer microbatches in
/// flight, one has more. Needs as many layers as parts.
std::vector<int64_t> balanced_layers(const RunConfig& run, const PartCosts& costs);

}  // namespace frugal::engine
