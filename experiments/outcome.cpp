#include "experiments/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/calibrate/fit.h"
#include "harness/report/commands/longest_report.h"

namespace frugal::experiments {

Found find_case(const Records& records, const std::string& artifact, const std::string& case_id,
                const Setting& setting) {
  const Record* found = records.find(artifact, case_id, setting);
  if (found == nullptr) return {nullptr, Status::skipped, "case " + case_id + " was not run"};
  return {found->ok() ? found : nullptr, found->status, found->reason};
}

bool fitted_to(const Setting& setting, std::string_view artifact, std::string_view row,
               std::string_view column) {
  constexpr std::string_view prefix = "virtual:";
  if (!setting.on.starts_with(prefix)) return false;
  // One with other values than its file's, NAME#HASH, was not fitted.
  const std::string name = setting.on.substr(prefix.size());
  const std::vector<std::string> known = machine_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return false;
  const Fit fit = find_fit(name);
  return fit.program.name == setting.program && fit.is_to(artifact, row, column);
}

void set(Comparison& number, const Setting& setting, const Outcome& outcome) {
  number.source = setting.source;
  number.on = setting.where();
  number.links = setting.links;
  number.program = setting.program;
  number.scale = setting.scale;
  number.threads = setting.threads;
  number.reason = outcome.reason;
  number.cases = outcome.cases;
  if (outcome.estimate) number.set(*outcome.estimate);
}

Cell make_cell(const Paper& paper, const std::string& artifact, std::string_view row,
               std::string_view column, std::string_view unit, const Setting& setting,
               const Outcome& outcome) {
  Cell cell;
  cell.artifact = paper.id() + "/" + artifact;
  cell.row = row;
  cell.column = column;
  cell.unit = unit;
  if (const PaperCell* theirs = paper.find_cell(artifact, row, column)) {
    if (theirs->oom)
      cell.paper_oom = true;
    else
      cell.paper = theirs->value;
    cell.read = theirs->read;
  }
  cell.status = outcome.status;
  set(cell, setting, outcome);
  cell.fitted = cell.paper && setting.scale == 1 && fitted_to(setting, cell.artifact, row, column);
  return cell;
}

Cell formula_cell(const Paper& paper, const std::string& artifact, std::string_view row,
                  std::string_view column, std::string_view unit, double value) {
  return make_cell(paper, artifact, row, column, unit, {Source::formula, ""}, {Estimate{value}});
}

std::optional<int> usable_processors_of(const Record& record) {
  const auto environment = nlohmann::json::parse(record.environment, nullptr, false);
  const nlohmann::json::json_pointer at("/processor/usable_processors");
  if (!environment.is_object() || !environment.contains(at)) return std::nullopt;
  return environment.at(at).get<int>();
}

std::string breakdown(const Memory& memory) {
  const StageMemory& stage = fullest_stage(memory);
  std::string text;
  for (int i = 0; i < kind_count; ++i)
    if (const auto bytes = static_cast<double>(stage.at_peak[static_cast<size_t>(i)]);
        bytes >= 0.005 * gib)
      text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", name_of(static_cast<Kind>(i)),
                          bytes / gib);
  text += " GiB at the peak";
  if (memory.host_peak > 0)
    text += fmt::format(", {:.1f} GiB of the host's memory",
                        static_cast<double>(memory.host_peak) / gib);
  return text;
}

void beside_nothing(Cell& cell) {
  cell.paper.reset();
  cell.paper_oom = false;
  cell.read.clear();
}

}  // namespace frugal::experiments
