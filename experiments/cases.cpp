#include "experiments/cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/lone_stage.h"
#include "kernels/support/error.h"

namespace frugal::experiments {

void scale_down(Case& c, int64_t k, const std::string& name) {
  c.scale = k;
  try {
    c.config.model = c.config.model.scaled(k);
  } catch (const InputError& error) {
    c.skip = fmt::format("{} at scale {}: {}", name, scale_name(k), error.what());
  }
}

Cases step_memory_cases(const std::string& machine, std::vector<Step> steps) {
  return [machine, steps = std::move(steps)](const Selection& selection) {
    std::vector<Case> cases;
    if (!selection.virtual_machine) return cases;
    for (const Step& step : steps)
      scale_down(cases.emplace_back(Case{.id = step.id,
                                         .config = step.config,
                                         .workload = workload::StepMemory{},
                                         .on = "virtual:" + machine}),
                 selection.scale.value_or(1), step.id);
    return cases;
  };
}

const StageMemory& stage_of(const Record& record, size_t stage) {
  const std::vector<StageMemory>& stages = record.memory.value().stages;
  if (!record.lone_stages) return stages.at(stage);
  const std::vector<int>& ran = record.lone_stages->stages;
  const auto like = std::ranges::find(ran, stage_like(record.config, static_cast<int>(stage)));
  return stages.at(static_cast<size_t>(like - ran.begin()));
}

double bytes_of(const BytesPerKind& bytes, Kind kind) {
  return static_cast<double>(bytes[static_cast<size_t>(kind)]);
}

std::vector<Setting> settings_of(const Selection& selection, const std::string& machine,
                                 int64_t cpu_scale) {
  const int64_t scale = selection.scale.value_or(1);
  std::vector<Setting> settings;
  if (selection.virtual_machine)
    settings.push_back({Source::simulated, "virtual:" + machine, scale});
  if (selection.cpu)
    settings.push_back({Source::measured, "cpu", selection.scale.value_or(cpu_scale)});
  if (selection.cuda) settings.push_back({Source::measured, "cuda", scale});
  return settings;
}

}  // namespace frugal::experiments
