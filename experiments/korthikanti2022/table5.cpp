#include <fmt/format.h>

#include <array>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/steps.h"
#include "experiments/on_gpus.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr const char* table = "table5";
constexpr const char* full_time = "full recompute";
constexpr const char* increase = "throughput increase";
constexpr const char* present_time = "sequence parallel + selective recompute";
constexpr double time_rounding = 0.005;  // seconds: times are printed to a hundredth
constexpr double percent_rounding = 0.05;

/// A column that follows from the printed times, in percent, and by how much it may be off because
/// the times were rounded before they were printed.
struct Derived {
  const char* column;
  double value;
  double rounding;
};

std::array<Derived, 3> derived(const Model& model) {
  const std::string& row = model.config.name;
  const double before = paper_cell(table, row, full_time).value;
  const double after = paper_cell(table, row, present_time).value;
  const auto batch = static_cast<double>(model.global_batch);
  const auto percent_of_peak = [&](double flops) {
    return 100 * utilization(flops, after, static_cast<double>(model.gpus), peak_flops_per_gpu());
  };
  const double gained = 100 * (before / after - 1);
  const double mfu = percent_of_peak(model_flops(model.config, batch));
  const double hfu = percent_of_peak(hardware_flops_eq8(model.config, batch));
  const double relative = time_rounding / after;
  return {{{increase, gained, (100 + gained) * (relative + time_rounding / before)},
           {"MFU", mfu, mfu * relative},
           {"HFU", hfu, hfu * relative}}};
}

std::vector<Cell> table5_formulas() {
  std::vector<Cell> cells;
  for (const Model& model : models())
    for (const Derived& d : derived(model)) {
      cells.push_back(formula_cell(paper(), table, model.config.name, d.column, "%", d.value));
      cells.back().note = "follows from the paper's own times";
      cells.back().tolerance = d.rounding + percent_rounding;
      cells.back().justification = "times are printed to 0.01 s, percentages to 0.1";
    }
  return cells;
}

std::vector<Iteration> table5_iterations() {
  std::vector<Iteration> all;
  for (const Model& model : models())
    for (const Technique& technique : {full, present})
      all.push_back({model.config.name, technique});
  return all;
}

double throughput_increase(const Record& before, const Record& after) {
  return 100 * (seconds(before) / seconds(after) - 1);
}

Estimate step_time(const Record& record) { return median_of(record, metric::step_time); }

std::vector<DeclaredCell> table5_cells(const Setting& setting) {
  std::vector<DeclaredCell> cells;
  for (const Model& model : models()) {
    const std::string& row = model.config.name;
    const std::string before = case_id(row, full), after = case_id(row, present);
    cells.push_back({row, full_time, "s", {before}, step_time});
    cells.push_back({row, present_time, "s", {after}, step_time});
    cells.push_back({row, increase, "%", {before, after}, throughput_increase});
    // Of the present work's time. The paper has no such columns.
    if (has_step_parts(setting, step_config(model, present)))
      for (const StepPart& part : step_parts)
        cells.push_back({row, part.name, "s", {after}, part.of});
    if (setting.on == "cuda") continue;  // its peak is not that of the paper's GPUs
    cells.push_back({row, "MFU", "%", {after}, mfu});
    cells.push_back({row, "HFU", "%", {after}, hfu});
  }
  return cells;
}

/// Seconds of another GPU stand beside none of the paper's.
void complete_table5(Cell& cell, const DeclaredCell& /*declared*/, const Runs& runs) {
  if (runs.setting().on == "cuda" && cell.unit == "s") beside_nothing(cell);
}

/// Gains to three points, utilizations as everywhere.
std::optional<policy::Tolerance> narrower_table5(const Cell& cell) {
  if (cell.column == increase) return policy::Tolerance{3, "3 points of a gain"};
  return utilization_tolerance(cell);
}

}  // namespace

/// Table 5: whole iterations, on the paper's machine, virtually; and what equations 7 and 8 make of
/// the paper's own times.
const Artifact& table5() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = table,
       .program = papers_program,
       .cases = also_on_gpus(iteration_cases(table5_iterations()), steps_on_gpus),
       .cells = table5_cells,
       .formulas = table5_formulas,
       .complete = complete_table5,
       .divided = true,
       .claims = {claims_of_cells(
           {{.id = "table5/{row}/{column}", .statement = "{row}: {column} is {paper} {unit}"}})},
       .narrower = narrower_table5});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
