#include "harness/cli/training_case.h"

#include "harness/settings/resolve.h"

namespace frugal::harness {

Case training_case(const RunSettings& settings, const TrainingRun& run, const Target& target) {
  const std::string& model = run.config.model.name;
  return {.id = model.empty() ? "model" : model,
          .config = run.config,
          .workload = static_cast<const Training&>(run),
          .on = settings.place.on,
          .lone_rank = settings.place.lone_rank,
          .scale = settings.scale,
          .command = "frugal measure" + command_flags(settings, run, target)};
}

}  // namespace frugal::harness
