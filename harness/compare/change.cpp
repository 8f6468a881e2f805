#include "harness/compare/change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/compare/quantity.h"
#include "harness/compare/rank_test.h"
#include "harness/compare/signed_rank.h"

namespace frugal::harness {
namespace {

/// What a ratio below or above 1 is.
Change direction(QuantityKind kind, bool more) {
  if (kind == QuantityKind::time) return more ? Change::slower : Change::faster;
  return more ? Change::more : Change::less;
}

/// Whether one process tells what every other would: of a virtual clock, or where something is
/// counted; no sample of a real clock.
bool is_exact(const CasePair& pair, const ObservedQuantity& quantity) {
  const bool simulated = pair.base.runs.front()->source == Source::simulated;
  return simulated || (quantity.kind == QuantityKind::counted && quantity.exact());
}

std::string note_of_sequences(const std::vector<double>& base,
                              const std::vector<double>& candidate) {
  if (base.size() != candidate.size())
    return fmt::format("{} steps, and {}", base.size(), candidate.size());
  double largest = 0;
  size_t first = base.size();
  for (size_t i = base.size(); i-- > 0;) {
    if (base[i] == candidate[i]) continue;
    first = i;
    largest = std::max(largest, std::abs(candidate[i] - base[i]) / std::abs(base[i]));
  }
  return fmt::format("first at {} of {}: {:.9g} and {:.9g}; at most {:.2g} of it apart", first + 1,
                     base.size(), base[first], candidate[first], largest);
}

void compare_sequences(const ObservedQuantity& quantity, ComparedQuantity& compared) {
  const std::vector<double>& base = quantity.base.front();
  const std::vector<double>& candidate = quantity.candidate.front();
  compared.base = base.back();
  compared.candidate = candidate.back();
  if (!quantity.exact()) {
    compared.change = Change::ambiguous;
    compared.note = "they differ from process to process of one side";
    return;
  }
  if (base == candidate) return;
  compared.change = Change::different;
  compared.note = note_of_sequences(base, candidate);
}

/// Numbers that are the same in every run.
void compare_exactly(const ObservedQuantity& quantity, ComparedQuantity& compared) {
  constexpr double rounding = 1e-12;
  const double base = *compared.base, candidate = *compared.candidate;
  if (base != 0) compared.ratio = Estimate{candidate / base};
  if (std::abs(candidate - base) <= rounding * std::abs(base)) return;
  compared.change = direction(quantity.kind, candidate > base);
}

/// Numbers that vary. What the change is, if there is one, is for judge() to say.
void compare_processes(const ObservedQuantity& quantity, ComparedQuantity& compared) {
  if (!quantity.positive()) {
    compared.change = Change::ambiguous;
    compared.note = "numbers that are not above zero have no ratio";
    return;
  }
  if (compared.by_turns) {
    const std::vector<double> ratios = log_ratios_of_turns(quantity.base, quantity.candidate);
    compared.ratio = ratio_of_turns(ratios);
    compared.p = signed_rank_test(ratios);
  } else {
    compared.ratio = ratio_of_medians(quantity.base, quantity.candidate);
    compared.p = rank_test(medians_of(quantity.base), medians_of(quantity.candidate));
  }
  compared.change = direction(quantity.kind, compared.ratio->value > 1);
  if (compared.ratio->interval) return;
  compared.p.reset();
  compared.change = Change::too_few;
}

ComparedQuantity compared(const CasePair& pair, const ObservedQuantity& quantity) {
  ComparedQuantity compared{pair.base.name(),
                            pair.which,
                            quantity.name,
                            quantity.unit,
                            median(medians_of(quantity.base)),
                            median(medians_of(quantity.candidate))};
  compared.base_processes = quantity.base.size();
  compared.candidate_processes = quantity.candidate.size();
  if (quantity.kind == QuantityKind::sequence) {
    compare_sequences(quantity, compared);
  } else if (is_exact(pair, quantity)) {
    compare_exactly(quantity, compared);
  } else {
    compared.by_turns = pair.by_turns && quantity.base.size() == quantity.candidate.size();
    compare_processes(quantity, compared);
  }
  return compared;
}

/// The smallest p-value that any times of so many processes could have.
double smallest_p(bool by_turns, size_t base, size_t candidate) {
  return by_turns ? smallest_signed_rank_p(base) : smallest_rank_p(base, candidate);
}

/// Judges something that varies, whose p-value is by now that of all `tests` together.
void judge(ComparedQuantity& compared, size_t tests, const CompareOptions& options) {
  const auto [low, high] = *compared.ratio->interval;
  const bool apart = low > 1 || high < 1;
  if (low >= 1 - options.margin && high <= 1 + options.margin) {
    compared.change = Change::same;
  } else if (!apart || *compared.p > options.level) {
    const auto could_tell = [&](size_t base, size_t candidate) {
      const double p = smallest_p(compared.by_turns, base, candidate);
      return p * static_cast<double>(tests) <= options.level;
    };
    compared.change = Change::ambiguous;
    if (could_tell(compared.base_processes, compared.candidate_processes)) return;
    size_t needed = interval_minimum;
    while (!could_tell(needed, needed)) ++needed;
    compared.change = Change::too_few;
    compared.note = fmt::format("{} quantities together need {} processes of each", tests, needed);
  }
}

constexpr std::string_view ended_well = "ok";

/// "ok" of runs that all ended well, "oom" of those that all ran out of memory, "3 of 14 oom".
std::string statuses_of(const CaseRuns& runs) {
  std::map<Status, size_t> counts;
  for (const Record* run : runs.runs) ++counts[run->status];
  if (counts.size() == 1) return std::string(name_of(counts.begin()->first));
  std::vector<std::string> texts;
  for (const auto& [status, count] : counts)
    if (status != Status::ok)
      texts.push_back(fmt::format("{} of {} {}", count, runs.runs.size(), name_of(status)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// A case of which a run did not end well on a side.
std::optional<ComparedQuantity> compared_status(const CasePair& pair) {
  const std::string base = statuses_of(pair.base), candidate = statuses_of(pair.candidate);
  if (base == ended_well && candidate == ended_well) return std::nullopt;
  ComparedQuantity compared{pair.base.name(), pair.which, "status", "", {}, {}};
  compared.base_processes = pair.base.runs.size();
  compared.candidate_processes = pair.candidate.runs.size();
  compared.change = base == candidate ? Change::same : Change::different;
  const Record& last = *pair.candidate.runs.back();
  compared.note = fmt::format("{}, and {}{}", base, candidate, last.ok() ? "" : ": " + last.reason);
  return compared;
}

}  // namespace

std::vector<ComparedQuantity> compare(const Pairing& pairing, const CompareOptions& options) {
  std::vector<ComparedQuantity> all;
  for (const CasePair& pair : pairing.pairs) {
    if (auto status = compared_status(pair)) all.push_back(std::move(*status));
    for (const ObservedQuantity& quantity : quantities_of(pair)) {
      ComparedQuantity one = compared(pair, quantity);
      if (one.change != Change::same || quantity.shown_where_same) all.push_back(std::move(one));
    }
  }
  std::vector<double> p;
  for (const ComparedQuantity& one : all)
    if (one.p) p.push_back(*one.p);
  adjust_by_holm(p);
  size_t next = 0;
  for (ComparedQuantity& one : all) {
    if (!one.p) continue;
    one.p = p[next++];
    judge(one, p.size(), options);
  }
  return all;
}

}  // namespace frugal::harness
