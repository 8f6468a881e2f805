#include "harness/explain/attribution.h"

#include <fmt/format.h>

#include "harness/measure/runner.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

/// Of these behaviours, named by them.
Program program_of(const std::vector<KnownBehaviour>& behaviours,
                   const std::function<bool(size_t)>& has) {
  Program program;
  for (size_t i = 0; i < behaviours.size(); ++i) {
    if (!has(i)) continue;
    const Behaviour& behaviour = *behaviours[i].behaviour;
    program.add(behaviour);
    program.name += fmt::format("{}{}", program.name.empty() ? "" : "+", behaviour.name);
  }
  return program;
}

std::vector<Case> own_cases(const Artifact& artifact) {
  return artifact.cases({.virtual_machine = true, .cpu = false, .programs = Programs::frugal});
}

Case with(Case c, const Program& program) {
  c.config.program = program;
  for (Case& smaller : c.smaller) smaller = with(std::move(smaller), program);
  return c;
}

std::optional<double> difference(const Cell* of, const Cell* from) {
  if (of == nullptr || from == nullptr || !of->value || !from->value) return std::nullopt;
  return *of->value - *from->value;
}

}  // namespace

bool Term::counts() const {
  const auto moves = [](const std::optional<double>& by) { return !by || *by != 0; };
  return moves(added) || moves(alone) || moves(without);
}

AttributionRuns::AttributionRuns(const Artifact& artifact, const std::string& program)
    : artifact_(artifact) {
  const std::string text = program.empty() ? artifact.program() : program;
  if (text.empty())
    throw InputError(
        fmt::format("{}: no program is known whose behaviour it would depend on; name one by "
                    "--program, or another artifact (docs/programs.md)",
                    id()));
  if (own_cases(artifact).empty())
    throw InputError(
        fmt::format("{}: it has no cases on a virtual machine, which explain runs", id()));
  behaviours_ = known_behaviours(text);
  const size_t n = behaviours_.size();
  const auto add = [&](std::string what, const std::function<bool(size_t)>& has) {
    runs_.push_back({program_of(behaviours_, has), std::move(what)});
  };
  const auto name = [&](size_t i) { return behaviours_[i].behaviour->name; };
  for (size_t last = 0; last < n; ++last)
    add(fmt::format("up to {}", name(last)), [&](size_t i) { return i <= last; });
  for (size_t one = 0; one < n; ++one)
    add(fmt::format("{} alone", name(one)), [&](size_t i) { return i == one; });
  for (size_t one = 0; one < n; ++one)
    add(fmt::format("without {}", name(one)), [&](size_t i) { return i != one; });
}

AttributionRuns::Values AttributionRuns::values_of(const Program& program) const {
  RecordFile in_memory;
  Progress silent;
  std::vector<Case> cases;
  for (Case& c : own_cases(artifact_)) cases.push_back(with(std::move(c), program));
  const Records records = Runner(in_memory, silent, {}).run(id(), cases);
  Values values;
  for (const Cell& cell : artifact_.cells(records))
    if (cell.source == Source::simulated && cell.paper)
      values.emplace(std::pair(cell.row, cell.column), cell);
  return values;
}

std::vector<Attribution> AttributionRuns::run(
    const Values& own, const std::function<void(const std::string&)>& done) const {
  std::vector<Values> all{own};
  for (const Run& run : runs_) {
    all.push_back(values_of(run.program));
    done(id() + " " + run.what);
  }
  const size_t n = behaviours_.size();
  std::vector<Attribution> attributions;
  for (const auto& entry : own) {
    const auto& name = entry.first;
    const Cell& cell = entry.second;
    const auto at = [&](size_t i) -> const Cell* {
      const auto found = all[i].find(name);
      return found == all[i].end() ? nullptr : &found->second;
    };
    const auto value = [](const Cell* of) { return of ? of->value : std::nullopt; };
    Attribution& one = attributions.emplace_back(Attribution{cell.artifact,
                                                             cell.row,
                                                             cell.column,
                                                             cell.unit,
                                                             cell.paper.value(),
                                                             cell.value,
                                                             value(at(n)),
                                                             {}});
    for (size_t i = 0; i < n; ++i)
      one.terms.push_back({behaviours_[i], difference(at(i + 1), at(i)),
                           difference(at(n + 1 + i), at(0)), difference(at(n), at(2 * n + 1 + i))});
  }
  return attributions;
}

}  // namespace frugal::harness
