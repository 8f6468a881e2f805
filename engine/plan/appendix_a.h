#pragma once
#include "engine/plan/links.h"
#include "engine/plan/part_cost.h"
#include "engine/plan/predict.h"

/// The equations of pipedream2bw2021, appendix A, for stages of one chunk: where they are and where
/// they differ from the paper's, docs/planner.md says.
namespace frugal::engine {

/// Of the passes of a batch, for a schedule whose steady state is known (SteadyState).
PassesTime passes_by_equations(const RunConfig& run, const PartCosts& costs, const Links& links,
                               const CostModel& times);

/// The least seconds of a batch without a flush because of a tied table, whose gradients the ends
/// sum in `tied` seconds.
double late_table(const RunConfig& run, const PartCosts& costs, const Links& links,
                  const CostModel& times, const StagePrediction& first, double tied);

}  // namespace frugal::engine
