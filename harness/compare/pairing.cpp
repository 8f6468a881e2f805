#include "harness/compare/pairing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/measure/statistics.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

bool counts(const Record& record) {
  return record.status != Status::interrupted && record.status != Status::skipped;
}

/// "2 runs of bench/gemm 64 in the base are of an earlier program".
void leave_out(size_t count, const CaseRuns& runs, const char* side, const char* why,
               std::vector<std::string>& left_out) {
  if (count > 0)
    left_out.push_back(fmt::format("{} run{} of {} in the {}: {}", count, count == 1 ? "" : "s",
                                   runs.name(), side, why));
}

/// In the order of their first records.
std::vector<CaseRuns> cases_in(const std::vector<Record>& records, const char* side,
                               std::vector<std::string>& left_out) {
  std::vector<CaseRuns> cases;
  for (const Record& record : records) {
    if (!counts(record)) continue;
    Conditions conditions = conditions_of(record);
    auto found = std::find_if(cases.begin(), cases.end(), [&](const CaseRuns& runs) {
      return runs.artifact == record.artifact && runs.case_id == record.case_id &&
             runs.conditions == conditions;
    });
    if (found == cases.end())
      found = cases.insert(cases.end(), {record.artifact, record.case_id, std::move(conditions)});
    found->runs.push_back(&record);
  }
  for (CaseRuns& runs : cases) {
    const std::string& last = runs.runs.back()->program;
    const size_t earlier =
        std::erase_if(runs.runs, [&](const Record* record) { return record->program != last; });
    leave_out(earlier, runs, side, "by an earlier program", left_out);
    std::stable_sort(runs.runs.begin(), runs.runs.end(),
                     [](const Record* a, const Record* b) { return a->started < b->started; });
  }
  return cases;
}

bool same_case(const CaseRuns& a, const CaseRuns& b) {
  return a.artifact == b.artifact && a.case_id == b.case_id;
}

std::string text_of(const std::vector<Difference>& differences) {
  constexpr size_t most = 3;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(most, differences.size()); ++i)
    texts.push_back(fmt::format("{} is {} in the base and {} in the candidate", differences[i].name,
                                differences[i].base, differences[i].candidate));
  if (differences.size() > most) texts.push_back(fmt::format("{} more", differences.size() - most));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Says why a case that both have is not compared.
[[noreturn]] void refuse(const CaseRuns& base, const std::vector<const CaseRuns*>& candidates,
                         const Across& across) {
  std::vector<Difference> fewest;
  for (const CaseRuns* candidate : candidates) {
    std::vector<Difference> found = across.forbidden(base.conditions, candidate->conditions);
    if (fewest.empty() || found.size() < fewest.size()) fewest = std::move(found);
  }
  std::vector<std::string> names;
  for (const Difference& difference : fewest) names.push_back(difference.name);
  const bool sources = std::find(names.begin(), names.end(), "source") != names.end();
  throw InputError(fmt::format(
      "{}: {}; compare runs under the same conditions{}", base.name(), text_of(fewest),
      sources ? ", and never virtual numbers with measured ones"
              : fmt::format(", or give --across {} where that is what the comparison is about",
                            fmt::join(names, ","))));
}

struct RunOfASide {
  const Record* record;
  bool of_base;
};

/// In the order in which they began.
std::vector<RunOfASide> all_runs(const CaseRuns& base, const CaseRuns& candidate) {
  std::vector<RunOfASide> all;
  for (const Record* record : base.runs) all.push_back({record, true});
  for (const Record* record : candidate.runs) all.push_back({record, false});
  std::stable_sort(all.begin(), all.end(), [](const RunOfASide& a, const RunOfASide& b) {
    return a.record->started < b.record->started;
  });
  return all;
}

/// A turn is a run of one side that follows one of the other, where neither is of another turn, and
/// begins when the turn before is over.
void find_turns(CasePair& pair, std::vector<std::string>& left_out) {
  CaseRuns base = pair.base, candidate = pair.candidate;
  base.runs.clear();
  candidate.runs.clear();
  std::string over;
  std::optional<RunOfASide> first;
  for (const RunOfASide& run : all_runs(pair.base, pair.candidate)) {
    if (run.record->started < over) continue;
    if (!first || first->of_base == run.of_base) {
      first = run;
      continue;
    }
    base.runs.push_back(run.of_base ? run.record : first->record);
    candidate.runs.push_back(run.of_base ? first->record : run.record);
    over = std::max(first->record->ended, run.record->ended);
    first.reset();
  }
  const size_t turns = base.runs.size(), of_base = pair.base.runs.size() - turns,
               of_candidate = pair.candidate.runs.size() - turns;
  pair.by_turns = of_base + of_candidate == 0 || turns >= interval_minimum;
  if (!pair.by_turns) return;
  leave_out(of_base, base, "base", "of no turn", left_out);
  leave_out(of_candidate, candidate, "candidate", "of no turn", left_out);
  pair.base.runs = std::move(base.runs);
  pair.candidate.runs = std::move(candidate.runs);
}

/// The candidate's cases, each taken by at most one of the base's.
struct Candidates {
  std::vector<CaseRuns> cases;
  std::vector<bool> taken;

  std::vector<size_t> of(const CaseRuns& base) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < cases.size(); ++i)
      if (same_case(cases[i], base)) found.push_back(i);
    return found;
  }
};

/// The one of the candidate's that goes with it; none where there is none.
std::optional<size_t> partner(const CaseRuns& base, const Candidates& candidates,
                              const Across& across) {
  std::vector<size_t> fitting;
  for (const size_t i : candidates.of(base))
    if (across.forbidden(base.conditions, candidates.cases[i].conditions).empty())
      fitting.push_back(i);
  if (fitting.size() > 1) {
    const auto found = differences(candidates.cases[fitting[0]].conditions,
                                   candidates.cases[fitting[1]].conditions);
    throw InputError(fmt::format(
        "{}: {} cases of the candidate go with it, such as {} {} and {}; keep one of them in a "
        "folder of its own",
        base.name(), fitting.size(), found.front().name, found.front().base,
        found.front().candidate));
  }
  if (fitting.empty()) return std::nullopt;
  return fitting.front();
}

/// Says of each pair what distinguishes it from others of the same case.
void distinguish(std::vector<CasePair>& pairs) {
  for (CasePair& pair : pairs) {
    Conditions own;
    for (const CasePair& other : pairs) {
      if (&other == &pair || !same_case(other.base, pair.base)) continue;
      for (const Difference& difference : differences(pair.base.conditions, other.base.conditions))
        own[difference.name] = difference.base;
    }
    std::vector<std::string> texts;
    for (const auto& [name, value] : own) texts.push_back(fmt::format("{} {}", name, value));
    pair.which = fmt::format("{}", fmt::join(texts, ", "));
  }
}

}  // namespace

Pairing pair_up(const std::vector<Record>& base, const std::vector<Record>& candidate,
                const Across& across) {
  Pairing pairing;
  Candidates candidates{cases_in(candidate, "candidate", pairing.left_out), {}};
  candidates.taken.resize(candidates.cases.size());
  std::vector<CaseRuns> alone;
  for (CaseRuns& runs : cases_in(base, "base", pairing.left_out)) {
    const std::optional<size_t> found = partner(runs, candidates, across);
    if (!found) {
      alone.push_back(std::move(runs));
      continue;
    }
    candidates.taken[*found] = true;
    pairing.pairs.push_back({std::move(runs), candidates.cases[*found]});
    find_turns(pairing.pairs.back(), pairing.left_out);
  }
  for (const CaseRuns& runs : alone) {
    std::vector<const CaseRuns*> left;
    for (const size_t i : candidates.of(runs))
      if (!candidates.taken[i]) left.push_back(&candidates.cases[i]);
    if (!left.empty()) refuse(runs, left, across);
    pairing.only_base.push_back(runs.name());
  }
  for (size_t i = 0; i < candidates.cases.size(); ++i)
    if (!candidates.taken[i]) pairing.only_candidate.push_back(candidates.cases[i].name());
  if (pairing.pairs.empty())
    throw InputError(
        fmt::format("no case is in both: the base has {}, the candidate {}",
                    pairing.only_base.empty() ? "none" : pairing.only_base.front(),
                    pairing.only_candidate.empty() ? "none" : pairing.only_candidate.front()));
  distinguish(pairing.pairs);
  return pairing;
}

}  // namespace frugal::harness
