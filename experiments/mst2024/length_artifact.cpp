#include "experiments/mst2024/length_artifact.h"

#include <fmt/format.h>

#include "experiments/mst2024/differences.h"
#include "harness/longest_report.h"
#include "harness/training.h"

namespace frugal::mst2024 {
namespace {

constexpr double thousand = 1000;

double tokens_of(const Record& record) { return record.samples(metric::longest_sequence).front(); }

/// Megabytes for each of so many tokens of what depends on them, at the peak.
double per_token(const Record& record, double tokens) {
  const StageMemory& stage = fullest_stage(record.memory.value());
  const auto of = [&](Kind kind) { return stage.at_peak[static_cast<size_t>(kind)]; };
  return static_cast<double>(stage.peak - of(Kind::parameter) - of(Kind::gradient) -
                             of(Kind::optimizer)) /
         tokens / 1e6;
}

/// A number of one case's record.
template <class F>
Outcome outcome_of(const Found& found, const F& number) {
  if (found.record == nullptr) return {{}, found.status, found.reason};
  return {Estimate{number(*found.record)}, Status::ok, ""};
}

}  // namespace

Search search_of(const std::string& model, const Technique& technique, Gradients gradients) {
  return {.id = fmt::format("{}/{}", model, technique.name),
          .config = training_config(model, technique, 1, gradients)};
}

std::vector<Case> LengthArtifact::cases(const Selection& selection) const {
  if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return {};
  std::vector<Case> cases;
  for (const Search& search : searches_) {
    const StepOf step{search.config, {}};
    const bool searched = search.tokens == 0;
    Case& c = cases.emplace_back(
        Case{.id = search.id,
             .what = searched ? Case::What::longest_sequence : Case::What::step_memory,
             .config = step.with(searched ? step.granularity() : search.tokens),
             .on = "virtual:" + machine_});
    c.optimizer = default_optimizer(search.config);
  }
  return cases;
}

std::vector<Cell> LengthArtifact::cells(const Records& records) const {
  std::vector<Cell> all;
  for (const Setting& setting : records.settings(id()))
    for (Cell& cell : cells_in(setting, records)) {
      explain(cell);
      all.push_back(std::move(cell));
    }
  return all;
}

std::vector<Claim> LengthArtifact::claims(const Records& records) const {
  std::vector<Claim> claims;
  for (const Cell& cell : cells(records)) {
    if (!cell.paper || cell.read == another_papers) continue;
    const bool is_ratio = cell.unit == "x";
    claims.push_back(
        claim_about(cell, fmt::format("{}/{}/{}", name_, cell.row, cell.column),
                    fmt::format("{}: {} is {} {}", cell.row, cell.column, *cell.paper, cell.unit),
                    is_ratio ? 0.1 * *cell.paper : 1,
                    is_ratio ? "10 %: " + printed_ : "lengths are printed in whole thousands"));
  }
  return claims;
}

Cell LengthArtifact::cell(const Place& place, const std::string& row, const std::string& column,
                          const char* unit, const Outcome& outcome) const {
  return make_cell(paper(), name_, row, column, unit, place.setting, outcome);
}

Cell LengthArtifact::length(const Place& place, const std::string& row, const std::string& column,
                            const std::string& case_id) const {
  const Found found = find_case(place.records, id(), case_id, place.setting);
  Cell made =
      cell(place, row, column, "K tokens",
           outcome_of(found, [](const Record& record) { return tokens_of(record) / thousand; }));
  if (found.record == nullptr) return made;
  made.note = fmt::format(
      "{}, {}: {}; beside parameters, gradients and optimizer state {:.3f} MB for each token", row,
      column, breakdown(found.record->memory.value()),
      per_token(*found.record, tokens_of(*found.record)));
  if (made.paper)
    made.note += fmt::format(", and of the reported {} {}, {:.3f} MB", *made.paper, made.unit,
                             per_token(*found.record, thousand * *made.paper));
  return made;
}

Cell LengthArtifact::peak(const Place& place, const std::string& row, const std::string& column,
                          const std::string& case_id) const {
  return cell(
      place, row, column, "GiB",
      outcome_of(find_case(place.records, id(), case_id, place.setting), [](const Record& record) {
        return static_cast<double>(record.memory.value().peak_total) / gib;
      }));
}

Cell LengthArtifact::ratio(const Place& place, const std::string& row, const std::string& column,
                           const std::string& of, const std::string& over) const {
  const Found below = find_case(place.records, id(), over, place.setting);
  Outcome outcome = outcome_of(below, tokens_of);
  if (outcome.estimate)
    outcome = outcome_of(
        find_case(place.records, id(), of, place.setting),
        [&](const Record& record) { return tokens_of(record) / tokens_of(*below.record); });
  return cell(place, row, column, "x", outcome);
}

}  // namespace frugal::mst2024
