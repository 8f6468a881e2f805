#pragma once
#include <utility>

#include "engine/plan/links.h"
#include "engine/plan/walk.h"

namespace frugal::engine {

/// Whether some of a run's passes are made together.
bool makes_together(const RunConfig& run);

/// The parts of a stage's two chunks.
std::pair<ModelPart, ModelPart> chunks_of(const RunConfig& run, int stage);

/// A batch of so many of the run's microbatches, from one meeting of the stages to the next,
/// without what sums and steps take. `launch`: seconds in which the host begins a message.
Walk walk_of(const RunConfig& run, int microbatches, const PartCosts& costs, const Links& links,
             const CostModel& times, double launch);

}  // namespace frugal::engine
