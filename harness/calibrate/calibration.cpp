#include "harness/calibrate/calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/calibrate/least_squares.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using Artifacts = std::vector<const Artifact*>;

/// Throws InputError, where a machine has no fit, with those of hardware/ that have one.
void require_fit(const MachineWithFit& machine) {
  if (!machine.fit.parameters.empty() && !machine.fit.to.empty()) return;
  std::vector<std::string> others;
  for (const std::string& name : machine_names())
    if (!find_fit(name).parameters.empty()) others.push_back(name);
  throw InputError(
      fmt::format("--hardware {} has no \"fit\" with parameters and cells: nothing of it was "
                  "fitted; choose one of {}, or describe a fit in its file (docs/calibration.md)",
                  machine.name, fmt::join(others, ", ")));
}

const Artifact& find(const Artifacts& all, const std::string& id, const std::string& where) {
  std::vector<std::string> ids;
  for (const Artifact* artifact : all) {
    if (artifact->id() == id) return *artifact;
    ids.push_back(artifact->id());
  }
  const auto similar = nearest(id, ids);
  throw InputError(fmt::format(
      "{} has \"{}\", which is no artifact; {}`frugal list` shows all", where, id,
      similar.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(similar, ", "))));
}

double rounded(double value) { return std::stod(fmt::format("{:.3g}", value)); }

/// The cases that a fit needs, of an artifact.
struct NeededCases {
  const Artifact* artifact;
  std::vector<Case> cases;
};

bool in_chain(const Case& c, const std::set<std::string>& ids) {
  return ids.contains(c.id) || std::any_of(c.smaller.begin(), c.smaller.end(),
                                           [&](const Case& s) { return in_chain(s, ids); });
}

/// The records of fitted cells, with the file's values.
std::vector<std::pair<const Artifact*, Records>> runs_fitted_to(const FittedMachine& fitted) {
  std::vector<std::pair<const Artifact*, Records>> runs;
  for (const Artifact* artifact : fitted.fitted_to())
    runs.emplace_back(
        artifact, run_on(fitted.machine(), *artifact,
                         cases_on(*artifact, fitted.machine().name, fitted.machine().fit.program)));
  return runs;
}

std::vector<const Record*> behind_fit(const FittedMachine& fitted, const Artifact& artifact,
                                      const Records& records) {
  return records_behind(artifact, records,
                        [&](const Cell& cell) { return fitted.is_fitted_to(cell); });
}

std::vector<NeededCases> needed(const FittedMachine& fitted) {
  std::vector<NeededCases> all;
  for (const auto& [artifact, records] : runs_fitted_to(fitted)) {
    std::set<std::string> ids;
    for (const Record* record : behind_fit(fitted, *artifact, records)) ids.insert(record->case_id);
    std::vector<Case> cases =
        cases_on(*artifact, fitted.machine().name, fitted.machine().fit.program);
    std::erase_if(cases, [&](const Case& c) { return !in_chain(c, ids); });
    all.push_back({artifact, std::move(cases)});
  }
  return all;
}

std::vector<Cell> fitted_cells(const FittedMachine& fitted, const Machine& machine,
                               const std::vector<NeededCases>& needed) {
  std::vector<Cell> cells;
  for (const auto& [artifact, cases] : needed)
    for (Cell& cell : compared_cells(*artifact, run_on(machine, *artifact, cases)))
      if (fitted.is_fitted_to(cell)) {
        if (!cell.value)
          throw InputError(
              fmt::format("{}: fit.to names {}, {}, {}, which has no value there ({}); take it out",
                          machine.name, cell.artifact, cell.row, cell.column, cell.reason));
        cells.push_back(std::move(cell));
      }
  return cells;
}

/// Throws InputError where one of Fit::to names none of these.
void require_all(const MachineWithFit& machine, const std::vector<Cell>& cells) {
  for (const Fit::Cells& to : machine.fit.to)
    if (std::none_of(cells.begin(), cells.end(), [&](const Cell& cell) {
          return to.include(cell.artifact, cell.row, cell.column);
        }))
      throw InputError(fmt::format(
          "{}: fit.to names {}{}{}, which has no time or throughput of the paper's on this "
          "machine; `frugal reproduce {} --on virtual` shows what there is",
          machine.name, to.artifact, to.row.empty() ? "" : ", row " + to.row,
          to.column.empty() ? "" : ", column " + to.column, to.artifact));
}

std::vector<double> relative_errors(const std::vector<Cell>& cells) {
  std::vector<double> all;
  for (const Cell& cell : cells) all.push_back(cell.error_percent().value() / 100);
  return all;
}

double rms_percent(const std::vector<Cell>& cells) {
  double sum = 0;
  for (const double error : relative_errors(cells)) sum += error * error;
  return 100 * std::sqrt(sum / static_cast<double>(cells.size()));
}

/// What is searched for, in the order of Fit::parameters.
std::vector<Unknown> unknowns(const MachineWithFit& machine) {
  std::vector<Unknown> all;
  for (const std::string& key : machine.fit.parameters) {
    const auto parameter = std::find_if(machine.parameters.begin(), machine.parameters.end(),
                                        [&](const Machine::Parameter& p) { return p.key == key; });
    if (parameter->whole)
      throw InputError(
          fmt::format("{}: fit.parameters has {}, a whole number; only others can be fitted",
                      machine.name, key));
    const double most = parameter->most == 1 ? 1 - 1e-6 : 1e3 * parameter->value;
    all.push_back({std::min(parameter->value, most), 1e-3 * parameter->value, most});
  }
  return all;
}

}  // namespace

FittedMachine::FittedMachine(std::string hardware, const Artifacts& all)
    : hardware_(std::move(hardware)), machine_{find_machine(hardware_), find_fit(hardware_)} {
  require_fit(machine_);
  for (const Fit::Cells& to : machine_.fit.to) {
    const Artifact* artifact = &find(all, to.artifact, machine_.name + ": fit.to");
    if (std::find(fitted_to_.begin(), fitted_to_.end(), artifact) == fitted_to_.end())
      fitted_to_.push_back(artifact);
  }
  for (const std::string& id : machine_.fit.held_out)
    held_out_.push_back(&find(all, id, machine_.name + ": fit.held_out"));
}

FittedMachine FittedMachine::as_if(const std::map<std::string, double>& values) const {
  FittedMachine other = *this;
  for (const auto& [key, value] : values) other.values_[key] = value;
  static_cast<Machine&>(other.machine_) = find_machine(hardware_, other.values_);
  std::erase_if(other.machine_.fit.parameters,
                [&](const std::string& key) { return values.contains(key); });
  return other;
}

bool FittedMachine::is_fitted_to(const Cell& cell) const {
  return is_timed(cell.unit) && machine_.fit.is_to(cell.artifact, cell.row, cell.column);
}

bool FittedParameter::differs() const {
  return std::abs(file - refitted) > std::max(0.01 * refitted, flat);
}

bool Refit::differs() const {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const FittedParameter& p) { return p.differs(); });
}

Refit refit(const FittedMachine& fitted) {
  const std::vector<Unknown> search = unknowns(fitted.machine());
  const std::vector<NeededCases> cases = needed(fitted);
  const auto& keys = fitted.machine().fit.parameters;
  const auto cells_with = [&](const std::vector<double>& values) {
    std::map<std::string, double> changed;
    for (size_t i = 0; i < keys.size(); ++i) changed[keys[i]] = values[i];
    return fitted_cells(fitted, fitted.with(changed), cases);
  };
  const std::vector<Cell> before = fitted_cells(fitted, fitted.machine(), cases);
  require_all(fitted.machine(), before);
  const LeastSquares found = least_squares(
      [&](const std::vector<double>& values) { return relative_errors(cells_with(values)); },
      search);
  Refit refit;
  std::vector<double> digits;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!found.matters[i])
      throw InputError(fmt::format(
          "{}: fit.parameters has {}, on which none of the cells of fit.to depends; take it out",
          fitted.machine().name, keys[i]));
    digits.push_back(rounded(found.values[i]));
    const auto& all = fitted.machine().parameters;
    const auto file = std::find_if(all.begin(), all.end(),
                                   [&](const Machine::Parameter& p) { return p.key == keys[i]; });
    refit.parameters.push_back({keys[i], file->unit, file->value, digits[i], found.flat[i]});
  }
  const std::vector<Cell> after = cells_with(digits);
  for (size_t i = 0; i < before.size(); ++i) refit.cells.push_back({before[i], after[i]});
  refit.rms_file = rms_percent(before);
  refit.rms_refitted = rms_percent(after);
  return refit;
}

std::vector<HeldOut> held_out_errors(const FittedMachine& fitted,
                                     const std::function<void(const std::string&)>& done) {
  std::set<std::string> fitted_runs;  // by their fingerprints, which say all that decides a run
  for (const auto& [artifact, records] : runs_fitted_to(fitted))
    for (const Record* record : behind_fit(fitted, *artifact, records))
      fitted_runs.insert(record->fingerprint);
  std::vector<HeldOut> all;
  for (const Artifact* artifact : fitted.held_out()) {
    const std::string& name = fitted.machine().name;
    const Records records = run_on(fitted.machine(), *artifact,
                                   cases_on(*artifact, name, fitted.machine().fit.program));
    const std::vector<Cell> unseen =
        compared_cells(*artifact, records_without(records, [&](const Record& record) {
          return fitted_runs.contains(record.fingerprint);
        }));
    HeldOut& held_out = all.emplace_back(HeldOut{artifact->id(), {}, {}, {}});
    for (Cell& cell : compared_cells(*artifact, records)) {
      const bool kept = std::any_of(unseen.begin(), unseen.end(), [&](const Cell& other) {
        return other.row == cell.row && other.column == cell.column && other.value == cell.value;
      });
      held_out.all.add(cell);
      if (kept) held_out.unseen.add(cell);
      held_out.cells.push_back({std::move(cell), !kept});
    }
    done(artifact->id());
  }
  return all;
}

std::vector<std::string> split_violations(const Fit& fit) {
  std::vector<std::string> all;
  for (const std::string& artifact : fit.held_out)
    if (fit.is_to(artifact))
      all.push_back(fmt::format("{} is held out, and parameters are fitted to it", artifact));
  return all;
}

std::vector<std::string> split_violations(const std::vector<HeldOut>& held_out) {
  std::vector<std::string> all;
  for (const HeldOut& one : held_out)
    if (!one.cells.empty() &&
        std::all_of(one.cells.begin(), one.cells.end(), [](const auto& cell) { return cell.seen; }))
      all.push_back(
          fmt::format("{} is held out, and every cell of it is made of runs of fitted "
                      "ones",
                      one.artifact));
  return all;
}

}  // namespace frugal::harness
