#include "experiments/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/program/find_program.h"
#include "experiments/judge.h"
#include "kernels/support/error.h"

namespace frugal::experiments {
namespace {

void append(std::vector<Claim>& all, std::vector<Claim> more) {
  std::move(more.begin(), more.end(), std::back_inserter(all));
}

bool left_out(const Declaration& artifact, const DeclaredCell& declared, const Runs& runs) {
  const bool elsewhere = artifact.divided && runs.setting().on == "cuda";
  return (elsewhere || !declared.papers) && !runs.recorded(declared.cases.back());
}

Cell cell_of(const Declaration& artifact, const DeclaredCell& declared, const Runs& runs) {
  const Setting& setting = runs.setting();
  Cell cell = make_cell(
      artifact.paper, artifact.name, declared.paper_row.empty() ? declared.row : declared.paper_row,
      declared.column, declared.unit, setting, runs.outcome(declared.cases, declared.number));
  cell.row = declared.row;
  cell.of_another_run = !declared.paper_row.empty();
  cell.note = declared.note;
  if (declared.formula) {
    // Numbers of the paper's models follow from it, those of smaller ones are none of the paper's.
    (setting.scale == 1 ? cell.paper : cell.formula) = declared.formula(setting.scale);
    if (cell.paper) cell.read = "derived";
  }
  if (setting.scale != 1 && !artifact.any_size) beside_nothing(cell);
  if (artifact.complete) artifact.complete(cell, declared, runs);
  return cell;
}

/// The same with the behaviour of a program, and what is run where it does not fit.
Case as_program(Case c, const Program& program) {
  c.config.program = program;
  for (Case& smaller : c.smaller) smaller = as_program(std::move(smaller), program);
  return c;
}

/// Whether a cell that the paper has is so far from it that a reader will ask why.
bool is_off(const Cell& cell) {
  constexpr double percent = 10, points = 3;
  return std::abs(cell.error_percent().value_or(0)) > percent ||
         std::abs(cell.error_points().value_or(0)) > points;
}

std::string filled(const std::string& pattern, const Cell& cell) {
  return fmt::format(fmt::runtime(pattern),
                     fmt::arg("artifact", cell.artifact.substr(cell.artifact.find('/') + 1)),
                     fmt::arg("row", cell.row), fmt::arg("column", cell.column),
                     fmt::arg("paper", cell.paper.value_or(0)), fmt::arg("unit", cell.unit));
}

Claim claim_of(const ClaimOfCells& declared, const Cell& cell) {
  Claim claim;
  static_cast<Comparison&>(claim) = cell;
  claim.id = filled(declared.id, cell);
  claim.statement = filled(declared.statement, cell);
  policy::set_relation(claim, declared.relation);
  if (declared.adjust != nullptr) declared.adjust(claim, cell);
  return claim;
}

/// What the policy says of cells that stand beside one another.
void judge_cells(std::vector<Cell>& cells, const Declaration& artifact) {
  const Judge judge(artifact.paper, artifact.name);
  const std::vector<Cell> peers = cells;
  for (Cell& cell : cells) {
    if (!cell.has_papers()) continue;
    std::optional<policy::Tolerance> stated;
    if (artifact.narrower) stated = artifact.narrower(cell);
    if (cell.tolerance) stated = {*cell.tolerance, cell.justification};
    judge(cell, peers, stated);
  }
}

}  // namespace

Outcome Number::of_records(const Ended& ended, const std::function<Estimate()>& estimate) {
  for (const Found& one : ended)
    if (one.record == nullptr) return {{}, one.status, one.reason};
  try {
    return {estimate()};
  } catch (const InputError& error) {
    return {{}, Status::failed, error.what()};
  }
}

bool Runs::recorded(const std::string& case_id) const {
  const auto& all = records_->all();
  return std::any_of(all.begin(), all.end(), [&](const Record& r) {
    return r.artifact == artifact_ && r.case_id == case_id && setting_of(r) == setting_;
  });
}

Outcome Runs::outcome(const std::vector<std::string>& cases, const Number& number) const {
  Number::Ended ended;
  for (const std::string& id : cases) ended.push_back(find(id));
  Outcome outcome = number(ended);
  outcome.cases = cases;
  return outcome;
}

Results::Results(const Declaration& declared, const Records& records) : artifact(declared) {
  for (const Setting& setting : records.settings(artifact.id())) {
    auto& [runs, cells] = settings.emplace_back(InSetting{{records, artifact.id(), setting}, {}});
    for (const DeclaredCell& one : artifact.cells(setting))
      if (!left_out(artifact, one, runs)) cells.push_back(cell_of(artifact, one, runs));
    judge_cells(cells, artifact);
  }
  if (artifact.formulas) formulas = artifact.formulas();
  judge_cells(formulas, artifact);
  for (InSetting& one : settings)
    for (Cell& cell : one.cells) {
      if (cell.reason.empty() && is_off(cell)) cell.reason = difference(cell);
      if (cell.reason.empty() && cell.verdict() == Verdict::undecided)
        cell.reason = cell.why_undecided();
    }
}

std::string Results::difference(const Cell& cell) const {
  if (artifact.program.empty() || !cell.paper || !cell.value) return "";
  for (const InSetting& one : settings) {
    if (one.runs.setting().program.empty() || one.runs.setting().scale != cell.scale) continue;
    const std::string& program = one.runs.setting().program;
    const auto as_program = std::ranges::find_if(one.cells, [&](const Cell& other) {
      return other.row == cell.row && other.column == cell.column && other.value;
    });
    if (as_program == one.cells.end()) continue;
    if (as_program->on == cell.on)
      return fmt::format("{:.4g} {} are left that no behaviour of {} explains",
                         *cell.paper - *cell.value, cell.unit, program);
    const bool nearer =
        std::abs(*as_program->value - *cell.paper) < std::abs(*cell.value - *cell.paper);
    return fmt::format("{:.4g} {} as {}{}", *as_program->value, cell.unit, program,
                       nearer ? "" : ", so that does not explain it");
  }
  return "";
}

std::vector<Cell> Results::cells() const {
  std::vector<Cell> all;
  for (const InSetting& one : settings) all.insert(all.end(), one.cells.begin(), one.cells.end());
  all.insert(all.end(), formulas.begin(), formulas.end());
  return all;
}

std::vector<Case> DeclaredArtifact::cases(const Selection& selection) const {
  if (!declared_.cases) return {};
  std::vector<Case> own = declared_.cases(selection);
  if (declared_.program.empty() || selection.programs == Programs::frugal) return own;
  std::vector<Case> all;
  const Program program = find_program(declared_.program);
  for (const Case& c : own)
    if (c.source() == Source::simulated)
      all.push_back(as_program(declared_.of_program ? declared_.of_program(c) : c, program));
  for (Case& c : own)
    if (selection.programs == Programs::both || c.source() != Source::simulated)
      all.push_back(std::move(c));
  return all;
}

std::vector<Claim> DeclaredArtifact::claims(const Records& records) const {
  const Results results(declared_, records);
  std::vector<Claim> all;
  for (const Claims& some : declared_.claims) append(all, some(results));
  for (Claim& claim : all) {
    if (claim.relation == Comparison::Relation::direction)
      claim.statement += fmt::format("; at {} of the size, its direction", scale_name(claim.scale));
    if (claim.reason.empty() && claim.verdict() == Verdict::undecided)
      claim.reason = claim.why_undecided();
  }
  return all;
}

Claims claims_of_cells(std::vector<ClaimOfCells> all) {
  return [all = std::move(all)](const Results& results) {
    std::vector<Claim> claims;
    for (const Cell& cell : results.cells())
      for (const ClaimOfCells& one : all) {
        if (!one.about(cell)) continue;
        Claim& claim = claims.emplace_back(claim_of(one, cell));
        if (claim.reason.empty() && claim.verdict() == Verdict::not_reproduced)
          claim.reason = results.difference(cell);
      }
    return claims;
  };
}

Claims claims_of_settings(std::function<std::vector<Claim>(const Results::InSetting&)> claims,
                          bool full_size) {
  return [claims = std::move(claims), full_size](const Results& results) {
    std::vector<Claim> all;
    for (const Results::InSetting& one : results.settings)
      if (!full_size || one.runs.setting().scale == 1) append(all, claims(one));
    return all;
  };
}

std::vector<std::string> cases_of(const std::vector<Cell>& cells) {
  std::vector<std::string> all;
  for (const Cell& cell : cells)
    std::ranges::copy_if(cell.cases, std::back_inserter(all),
                         [&](const std::string& id) { return std::ranges::count(all, id) == 0; });
  return all;
}

Claim claim_of(std::string id, std::string statement, std::string unit, std::optional<double> paper,
               const Setting& setting, const Outcome& outcome) {
  Claim claim;
  claim.id = std::move(id);
  claim.statement = std::move(statement);
  claim.unit = std::move(unit);
  claim.paper = paper;
  set(claim, setting, outcome);
  return claim;
}

Claim claim_of(const Statement& statement, std::string unit, const Setting& setting,
               const Outcome& outcome, const std::optional<policy::Tolerance>& stated) {
  Claim claim =
      claim_of(statement.id, statement.says, std::move(unit), statement.value, setting, outcome);
  policy::judge(claim,
                {.made = policy::Made::compared,
                 .value = statement.value.value(),
                 .unit = claim.unit,
                 .uncertainty = statement.uncertainty,
                 .no_effect = {claim.unit == "x" ? 1.0 : 0.0}},
                stated);
  return claim;
}

}  // namespace frugal::experiments
