#include "experiments/mst2024/lengths.h"

#include <fmt/format.h>

#include "harness/measure/runs/training.h"
#include "harness/report/commands/longest_report.h"

namespace frugal::experiments::mst2024 {
namespace {

constexpr double thousand = 1000;
constexpr const char* in_thousands = "K tokens";

double tokens_of(const Record& record) { return record.samples(metric::longest_sequence).front(); }

/// Megabytes for each of so many tokens of what depends on them, at the peak.
double per_token(const Record& record, double tokens) {
  const StageMemory& stage = fullest_stage(record.memory.value());
  const auto of = [&](Kind kind) { return stage.at_peak[static_cast<size_t>(kind)]; };
  return static_cast<double>(stage.peak - of(Kind::parameter) - of(Kind::gradient) -
                             of(Kind::optimizer)) /
         tokens / 1e6;
}

}  // namespace

Search search_of(const std::string& model, const Technique& technique, Gradients gradients) {
  return {.id = fmt::format("{}/{}", model, technique.name),
          .config = training_config(model, technique, 1, gradients)};
}

Cases search_cases(const std::string& machine, std::vector<Search> searches) {
  return [machine, searches = std::move(searches)](const Selection& selection) {
    std::vector<Case> cases;
    if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return cases;
    for (const Search& search : searches) {
      const StepOf step{search.config, {}};
      const bool searched = search.tokens == 0;
      cases.push_back({.id = search.id,
                       .config = step.with(searched ? step.granularity() : search.tokens),
                       .workload = searched ? Workload(workload::LongestSequence{
                                                  default_optimizer(search.config)})
                                            : workload::StepMemory{},
                       .on = "virtual:" + machine});
    }
    return cases;
  };
}

DeclaredCell length(const std::string& row, const std::string& column, const std::string& case_id) {
  return {row, column, in_thousands, {case_id}, [](const Record& record) {
            return tokens_of(record) / thousand;
          }};
}

DeclaredCell peak(const std::string& row, const std::string& column, const std::string& case_id) {
  return {row, column, "GiB", {case_id}, [](const Record& record) {
            return static_cast<double>(record.memory.value().peak_total) / gib;
          }};
}

DeclaredCell ratio(const std::string& row, const std::string& column, const std::string& of,
                   const std::string& over) {
  return {row, column, "x", {over, of}, [](const Record& below, const Record& above) {
            return tokens_of(above) / tokens_of(below);
          }};
}

void complete_length(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  const Record* record = runs.find(declared.cases.front()).record;
  if (cell.unit == in_thousands && record != nullptr) {
    cell.note = fmt::format(
        "{}, {}: {}; beside parameters, gradients and optimizer state {:.3f} MB for each token",
        cell.row, cell.column, breakdown(record->memory.value()),
        per_token(*record, tokens_of(*record)));
    if (cell.paper)
      cell.note += fmt::format(", and of the reported {} {}, {:.3f} MB", *cell.paper, cell.unit,
                               per_token(*record, thousand * *cell.paper));
  }
}

Claims claims_of_lengths() {
  return claims_of_cells(
      {{.id = "{artifact}/{row}/{column}", .statement = "{row}: {column} is {paper} {unit}"}});
}

}  // namespace frugal::experiments::mst2024
