#include "harness/report/verdicts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <vector>

namespace frugal::harness {
namespace {

constexpr std::array all_verdicts{Verdict::reproduced,     Verdict::not_reproduced,
                                  Verdict::undecided,      Verdict::calibrated,
                                  Verdict::not_comparable, Verdict::not_measurable};

using Name = std::tuple<std::string, std::string, std::string, int64_t>;
Name name(const Claim& claim) { return {claim.id, "", "", claim.scale}; }
Name name(const Cell& cell) { return {cell.artifact, cell.row, cell.column, cell.scale}; }

/// Without frugal's own virtual ones that were judged as the paper's program, too.
template <class T>
std::vector<const T*> judged(const std::vector<T>& all) {
  std::set<Name> of_programs;
  for (const T& one : all)
    if (!one.program.empty()) of_programs.insert(name(one));
  std::vector<const T*> some;
  for (const T& one : all)
    if (!one.program.empty() || one.source != Source::simulated || !of_programs.contains(name(one)))
      some.push_back(&one);
  return some;
}

void add_verdict(Tally& tally, const Claim& claim) { ++tally.of[claim.verdict()]; }
void add_verdict(Tally& tally, const Cell& cell) {
  if (!cell.has_papers()) return;
  if (const auto verdict = cell.verdict())
    ++tally.of[*verdict];
  else
    ++tally.without;
}

template <class T>
Tally tally_of(const std::vector<T>& all) {
  Tally tally;
  for (const T* one : judged(all)) add_verdict(tally, *one);
  return tally;
}

template <class T>
void add_rows(Table& table, const char* what, const std::vector<T>& all) {
  std::map<std::string, Tally> tallies;
  for (const T& one : all) add_verdict(tallies[origin(one)], one);
  for (const auto& [from, tally] : tallies) {
    if (tally.of.empty() && tally.without == 0) continue;
    std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{what, from});
    for (const Verdict verdict : all_verdicts)
      row.push_back(std::to_string(tally.of.contains(verdict) ? tally.of.at(verdict) : 0));
    row.push_back(std::to_string(tally.without));
  }
}

}  // namespace

std::string Tally::text() const {
  std::vector<std::string> parts;
  for (const Verdict verdict : all_verdicts)
    if (of.contains(verdict))
      parts.push_back(fmt::format("{} {}", of.at(verdict), name_of(verdict)));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

Tally judged_claims(const Reproduction& reproduction) { return tally_of(reproduction.claims); }
Tally judged_cells(const Reproduction& reproduction) { return tally_of(reproduction.cells); }

size_t failed_claims(const Reproduction& reproduction) {
  const auto claims = judged(reproduction.claims);
  return static_cast<size_t>(std::ranges::count_if(claims, [](const Claim* claim) {
    return claim->verdict() == Verdict::not_reproduced && !claim->expected;
  }));
}

size_t claims_without_effect(const Reproduction& reproduction) {
  return static_cast<size_t>(std::ranges::count_if(
      reproduction.claims, [](const Claim& claim) { return claim.passes_without_effect(); }));
}

bool is_decided_early(const Reproduction& reproduction) {
  return std::ranges::all_of(reproduction.claims, &Claim::is_decided_early) &&
         std::ranges::all_of(reproduction.cells, [](const Cell& cell) {
           const auto verdict = cell.verdict();
           return !verdict || *verdict == Verdict::not_comparable || cell.is_decided_early();
         });
}

Check check(const Reproduction& reproduction) {
  const size_t failed = failed_claims(reproduction), passing = claims_without_effect(reproduction);
  const Tally cells = judged_cells(reproduction);
  return {
      fmt::format("claims: {}; {} not reproduced for no known reason; {} would be reproduced "
                  "without any effect\ncells beside a number of the paper's: {}; {} without a "
                  "verdict\n",
                  judged_claims(reproduction).text(), failed, passing, cells.text(), cells.without),
      failed == 0 && passing == 0 && cells.without == 0};
}

Table verdict_table(const Reproduction& reproduction) {
  Table table{{{"", false}, {"source"}}, {}};
  for (const Verdict verdict : all_verdicts)
    table.columns.push_back({std::string(name_of(verdict)), true});
  table.columns.push_back({"without verdict", true});
  add_rows(table, "claims", reproduction.claims);
  add_rows(table, "cells", reproduction.cells);
  return table;
}

}  // namespace frugal::harness
