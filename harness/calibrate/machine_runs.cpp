#include "harness/calibrate/machine_runs.h"

#include <algorithm>
#include <cmath>

#include "harness/measure/runner.h"

namespace frugal::harness {

std::vector<Case> cases_on(const Artifact& artifact, const std::string& machine,
                           const Program& program) {
  std::vector<Case> cases;
  for (Case& c : artifact.cases({.virtual_machine = true, .cpu = false}))
    if (c.on == "virtual:" + machine && c.config.program.device == program.device)
      cases.push_back(std::move(c));
  return cases;
}

Records run_on(const Machine& machine, const Artifact& artifact, const std::vector<Case>& cases) {
  RecordFile in_memory;
  Progress silent;
  Runner runner(in_memory, silent, {.place = {.machine = machine}});
  return runner.run(artifact.id(), cases);
}

std::vector<Cell> compared_cells(const Artifact& artifact, const Records& records) {
  std::vector<Cell> cells = artifact.cells(records);
  std::erase_if(cells, [](const Cell& cell) {
    return cell.source != Source::simulated || !cell.paper || cell.scale != 1;
  });
  return cells;
}

bool is_timed(const std::string& unit) {
  return unit == "s" || unit == "ms" || unit.ends_with("/s");
}

std::optional<double> seconds_of(const Cell& cell) {
  if (!cell.value || !is_timed(cell.unit)) return std::nullopt;
  return cell.unit.ends_with("/s") ? 1 / *cell.value : *cell.value;
}

void Errors::add(double error) {
  mean = (mean * static_cast<double>(cells) + std::abs(error)) / static_cast<double>(cells + 1);
  worst = std::max(worst, std::abs(error));
  ++cells;
}

void ErrorsOfCells::add(const Cell& cell) {
  if (const auto error = cell.error_points())
    points.add(*error);
  else if (const auto of_time = cell.error_percent(); of_time && is_timed(cell.unit))
    percent.add(*of_time);
}

}  // namespace frugal::harness
