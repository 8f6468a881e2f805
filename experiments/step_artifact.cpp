#include "experiments/step_artifact.h"

#include <fmt/format.h>

#include "kernels/support/error.h"

namespace frugal {

std::vector<Case> StepArtifact::cases(const Selection& selection) const {
  if (!selection.virtual_machine) return {};
  std::vector<Case> cases;
  for (const Step& step : steps_) {
    Case& c = cases.emplace_back(Case{.id = step.id,
                                      .what = Case::What::step_memory,
                                      .config = step.config,
                                      .on = "virtual:" + machine_,
                                      .scale = selection.scale.value_or(1)});
    try {
      c.config.model = step.config.model.scaled(c.scale);
      c.config.validate();
    } catch (const InputError& error) {
      c.config = step.config;
      c.skip = fmt::format("{} at scale {}: {}", step.id, scale_name(c.scale), error.what());
    }
  }
  return cases;
}

std::vector<Cell> StepArtifact::cells(const Records& records) const {
  std::vector<Cell> all;
  for (const Setting& setting : records.settings(id()))
    for (Cell& cell : cells_in(setting, records)) all.push_back(std::move(cell));
  return all;
}

Cell StepArtifact::cell(std::string_view row, std::string_view column, std::string_view unit,
                        const Setting& setting, const Outcome& outcome) const {
  Cell cell = make_cell(paper_, name_, row, column, unit, setting, outcome);
  if (setting.scale != 1) {  // bytes of another size
    cell.paper.reset();
    cell.read.clear();
  }
  return cell;
}

const StageMemory& stage_of(const Record& record, size_t stage) {
  return record.memory.value().stages.at(stage);
}

double bytes_of(const BytesPerKind& bytes, Kind kind) {
  return static_cast<double>(bytes[static_cast<size_t>(kind)]);
}

}  // namespace frugal
