#pragma once
#include <functional>

#include "experiments/namespace.h"
#include "harness/measure/artifact.h"

namespace frugal::experiments {

using Cases = std::function<std::vector<Case>(const Selection&)>;

/// A case at 1/k of its model's size; skipped where k does not divide that of `name`.
void scale_down(Case& c, int64_t k, const std::string& name);

/// A training step of a model as an artifact runs it, at full size.
struct Step {
  std::string id;  ///< of the case, "530B/deallocation"
  RunConfig config;
};
/// The memory of whole training steps, on a machine of hardware/, virtually, whose limit is left
/// aside: what does not fit is a number too. On other devices nothing is run.
Cases step_memory_cases(const std::string& machine, std::vector<Step> steps);

/// Memory of a stage in a step's record; where stages ran alone, of the one that has the same parts
/// of the model.
const StageMemory& stage_of(const Record& record, size_t stage);
double bytes_of(const BytesPerKind& bytes, Kind kind);

/// Where an artifact's cases run: on a virtual machine, on the processor at this scale, on GPUs;
/// each at the user's scale where there is one, otherwise those others at full size.
std::vector<Setting> settings_of(const Selection& selection, const std::string& machine,
                                 int64_t cpu_scale);

}  // namespace frugal::experiments
