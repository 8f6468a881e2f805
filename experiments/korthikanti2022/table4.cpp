#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "experiments/korthikanti2022/layers.h"
#include "harness/measure/control.h"
#include "kernels/support/error.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

constexpr const char* table4_model = "22B";

constexpr std::array table4_rows{
    Named{"baseline", baseline},
    Named{"sequence parallel", sequence},
    Named{"full recompute", full},
    Named{"selective recompute", selective},
    Named{"selective recompute + sequence parallel", present},
    Named{"fused attention", fused},
    Named{"fused attention + sequence parallel", fused_sequence},
};

/// On one GPU: what recomputation costs where no communication hides or adds anything. The paper
/// has no such numbers.
constexpr const char* one_device = ", one device";
constexpr std::array alone_rows{
    Named{"baseline", alone_baseline},
    Named{"full recompute", alone_full},
    Named{"selective recompute", alone_selective},
    Named{"fused attention", alone_fused},
};

/// offset + factor · x.
Estimate scaled(Estimate x, double factor, double offset) {
  const auto map = [&](double y) { return offset + factor * y; };
  x.value = map(x.value);
  for (std::optional<Interval>* of : {&x.interval, &x.early}) {
    if (!*of) continue;
    const auto [low, high] = std::minmax({map((*of)->low), map((*of)->high)});
    *of = Interval{low, high};
  }
  return x;
}

constexpr const char* fitted_note =
    "three numbers of the machine's description were fitted to this table";

std::string at_scale(int64_t scale) {
  if (scale == 1) return "";
  return fmt::format("; scale {} keeps the ratios of memory and of FLOPs, not arithmetic intensity",
                     scale_name(scale));
}

/// What measured times depend on, from a record of them.
std::string circumstances(const Record& r) {
  const RunConfig& c = r.config;
  // The device says of a lone rank that it is one, and whose links its communication is charged to.
  std::string text =
      fmt::format("{}; {}, microbatch {}, ", r.device, name_of(c.type), c.micro_batch);
  if (r.on != "cpu") {
    text += r.modelled
                ? fmt::format("the other {} ranks absent: their communication is modelled",
                              c.tensor_parallel - 1)
                : fmt::format("{} GPU{}", c.tensor_parallel, c.tensor_parallel > 1 ? "s" : "");
    return text + at_scale(r.scale);
  }
  text += fmt::format("{} ranks as threads", c.tensor_parallel);
  if (const auto processors = usable_processors_of(r))
    text += fmt::format(" on {} processors", *processors);
  if (const auto threads = r.options.find("threads"); threads != r.options.end())
    text += fmt::format(" with {} kernel threads", threads->second);
  return text + at_scale(r.scale);
}

/// How much the forward pass of a cell's technique differs from its baseline's, where it is the
/// same work: what an overhead could be the device's by. Empty of other cells.
std::string control_of(const DeclaredCell& declared, const Runs& runs) {
  if (declared.unit != "%" || declared.cases.size() != 2) return "";
  const Record *base = runs.find(declared.cases[0]).record,
               *ours = runs.find(declared.cases[1]).record;
  if (base == nullptr || ours == nullptr || !same_forward(base->config, ours->config) ||
      ours->rounds != base->rounds)
    return "";
  const Samples with = forward_samples(*ours), without = forward_samples(*base);
  if (with.size() != without.size()) return "";
  return fmt::format("; {}: the forward pass, the same work as the baseline's, changed by {}",
                     declared.row, signed_percent(InRounds{with, without}.change()));
}

/// What a reader of a cell has to know, and where milliseconds are the paper's.
void complete_table4(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  if (runs.setting().source == Source::simulated) {
    cell.note = declared.papers ? fitted_note
                                : cell.note + "; fused attention has a published kernel's rate";
  } else {
    const Record* record = runs.find(declared.cases.back()).record;
    const std::string papers = std::exchange(cell.note, "");
    if (record != nullptr)
      cell.note = circumstances(*record) + control_of(declared, runs) +
                  (papers.empty() ? "" : "; " + papers);
  }
  if (cell.unit != "ms" || (cell.source == Source::simulated && cell.scale == 1)) return;
  beside_nothing(cell);
  if (cell.value)
    cell.reason = "milliseconds of another machine or size stand beside none of the paper's";
}

/// Times of a technique, and what it adds to those of `base`; columns end in `suffix`.
void add_row(std::vector<DeclaredCell>& cells, std::string_view row, const std::string& suffix,
             const Technique& technique, const Technique& base) {
  const auto add = [&](const char* column, const char* unit, const std::vector<Technique>& of,
                       const Number& number) {
    cells.push_back(layer_cell(std::string(row), column + suffix, unit, table4_model, of, number));
  };
  const std::pair<const char*, Samples (*)(const Record&)> times[] = {
      {"forward", forward_samples}, {"backward", backward_samples}, {"combined", combined}};
  for (const auto& [column, samples] : times)
    add(column, "ms", {technique},
        [samples = samples](const Record& r) { return scaled(exact_median(samples(r)), 1e3, 0); });
  if (technique.id == base.id) return;
  add("overhead", "%", {base, technique}, [](const Record& without, const Record& ours) {
    require_same_rounds({&without, &ours});
    if (same_forward(ours.config, without.config)) require_still_forward(ours, without);
    return scaled(exact_ratio(combined(ours), combined(without)), 100, -100);
  });
}

std::vector<DeclaredCell> table4_cells(const Setting& setting) {
  std::vector<DeclaredCell> cells;
  for (const auto& [row, technique] : table4_rows) add_row(cells, row, "", technique, baseline);
  if (setting.on == "cuda")
    for (const auto& [row, technique] : alone_rows)
      add_row(cells, row, one_device, technique, alone_baseline);
  return cells;
}

Estimate percent_removed(const Record& base, const Record& all, const Record& ours) {
  require_same_rounds({&base, &all, &ours});
  require_still_forward(all, base);
  const Samples gained = combine(combined(all), combined(ours), std::minus<>());
  const Samples lost = combine(combined(all), combined(base), std::minus<>());
  return scaled(exact_ratio(gained, lost), 100, 0);
}

Estimate percent_saved(const Record& base, const Record& ours) {
  require_same_rounds({&base, &ours});
  return scaled(exact_ratio(forward_samples(ours), forward_samples(base)), -100, 100);
}

/// Claims about the percentages in two of the paper's statements.
std::vector<Claim> table4_statements(const Results::InSetting& in) {
  const Setting& setting = in.runs.setting();
  const std::string base = case_id(table4_model, baseline);
  if (setting.on == "cuda" && !in.runs.recorded(base)) return {};
  const auto stated = [&](const char* id, const char* says, const Technique& ours,
                          const Number& number, std::vector<std::string> cases,
                          const std::optional<policy::Tolerance>& narrower = {}) {
    cases.push_back(case_id(table4_model, ours));
    Claim claim = claim_of(statement(id), "%", setting, in.runs.outcome(cases, number), narrower);
    claim.statement = says;
    claim.fitted = fitted_to(setting, "korthikanti2022/table4");
    return claim;
  };
  Claim removed = stated(
      "overhead-90",
      "sequence parallelism and selective recomputation remove over 90 % of the execution time "
      "overhead of full recomputation",
      present, percent_removed, {base, case_id(table4_model, full)},
      policy::Tolerance{
          2.5, "table 4's times are printed to 0.1 ms, which leaves 90.8 uncertain by 2.5 points"});
  policy::set_relation(removed, Claim::Relation::at_least);
  const Claim saved =
      stated("sp-forward", "sequence parallelism makes the forward pass 6 % shorter", sequence,
             percent_saved, {base});
  return {removed, saved};
}

/// Percent by which one technique takes longer than another with less overhead in the paper.
struct Pair {
  std::string names;
  Comparison longer;
};

struct PaperRow {
  double overhead;
  std::string_view name;
  const Record* record;
};

/// Pairs of rows. Their intervals all hold together as often as a single interval would.
std::vector<Pair> pairs_of(const std::vector<PaperRow>& rows, const Setting& setting) {
  const auto count = static_cast<int>(rows.size() * (rows.size() - 1) / 2);
  std::vector<Pair> pairs;
  for (const PaperRow& most : rows)
    for (const PaperRow& least : rows) {
      if (least.overhead >= most.overhead) continue;
      require_same_rounds({most.record, least.record});
      const Estimate ratio = exact_ratio(combined(*most.record), combined(*least.record), count);
      const double papers = 100 * (100 + most.overhead) / (100 + least.overhead) - 100;
      Comparison& pair =
          pairs.emplace_back(Pair{fmt::format("{} and {}", least.name, most.name), {}}).longer;
      set(pair, setting, {scaled(ratio, 100, -100)});
      pair.paper = papers;
      policy::judge(pair, {.made = policy::Made::compared, .value = papers, .unit = "%"});
    }
  return pairs;
}

/// How many pairs are in order. Its interval has all numbers that the pairs' intervals allow.
Estimate in_order(const std::vector<Pair>& pairs) {
  double all = 0, right = 0;
  Interval sure{}, early{};
  for (const auto& [names, pair] : pairs) {
    ++all;
    right += *pair.value > 0 ? 1 : 0;
    const Verdict verdict = pair.verdict();
    sure.low += verdict == Verdict::reproduced ? 1 : 0;
    sure.high += verdict != Verdict::not_reproduced ? 1 : 0;
    early.low += verdict == Verdict::reproduced && pair.is_decided_early() ? 1 : 0;
    early.high += verdict != Verdict::not_reproduced || !pair.is_decided_early() ? 1 : 0;
  }
  return {right, sure, pairs.front().longer.samples, early};
}

/// Text that names the pairs in the opposite order, or else the undecided ones; empty: none.
std::string out_of_order(const std::vector<Pair>& pairs) {
  std::string wrong, undecided;
  std::optional<double> more = 0;
  for (const auto& [names, pair] : pairs) {
    std::string& list = pair.verdict() == Verdict::undecided ? undecided : wrong;
    if (pair.verdict() == Verdict::reproduced) continue;
    list += (list.empty() ? "" : "; ") + names;
    if (pair.verdict() != Verdict::undecided || !more) continue;
    const std::optional<double> its = pair.rounds_to_decide();
    more = its ? std::optional(std::max(*more, *its)) : std::nullopt;
  }
  if (!wrong.empty()) return "in the opposite order: " + wrong;
  return undecided.empty() ? "" : fmt::format("undecided: {}; {}", undecided, more_rounds(more));
}

/// Claim of the order of overheads, at reduced size on a real machine: there an overhead's size
/// says nothing of the paper's.
std::vector<Claim> order_of_overheads(const Results::InSetting& in) {
  const Setting& setting = in.runs.setting();
  if (setting.source != Source::measured || setting.scale == 1) return {};
  std::vector<PaperRow> rows;
  Outcome outcome{{}, Status::ok, "", {}};
  for (const auto& [name, technique] : table4_rows) {
    const PaperCell* theirs = paper().find_cell("table4", name, "overhead");
    if (theirs == nullptr) continue;
    outcome.cases.push_back(case_id(table4_model, technique));
    const Found found = in.runs.find(outcome.cases.back());
    if (found.record == nullptr) outcome.reason = found.reason;
    rows.push_back({theirs->value, name, found.record});
  }
  double pairs = 0;
  for (const PaperRow& a : rows)
    for (const PaperRow& b : rows) pairs += a.overhead < b.overhead ? 1 : 0;
  try {
    if (outcome.reason.empty()) {
      const std::vector<Pair> all = pairs_of(rows, setting);
      outcome.estimate = in_order(all);
      outcome.reason = out_of_order(all);
    }
  } catch (const InputError& error) {
    outcome.reason = error.what();
  }
  Claim order = claim_of("table4/overhead/order", "each two overheads in the paper's order",
                         "pairs", pairs, setting, outcome);
  policy::judge_exact(order, pairs / 2,
                      "the order alone; each pair by intervals that hold for all together", true);
  return {order};
}

}  // namespace

/// Table 4: forward and backward time of a layer of the 22B model on eight devices. Milliseconds
/// are the paper's only at full size on its own machine; elsewhere the overheads are.
const Artifact& table4() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "table4",
       .program = papers_program,
       .cases = layer_cases(
           {.observed = workload::ModuleTime{},
            .techniques = {baseline, sequence, full, selective, present, fused, fused_sequence},
            .models = {table4_model},
            .cpu_type = DType::f32,
            .cpu_micro_batch = 4,
            .cuda_only = {alone_baseline, alone_full, alone_selective, alone_fused}}),
       .cells = table4_cells,
       .complete = complete_table4,
       .any_size = true,
       .divided = true,
       .claims = {claims_of_cells(
                      {{.about = [](const Cell& c) { return c.paper && c.column == "overhead"; },
                        .id = "table4/{row}/overhead",
                        .statement = "{row} adds {paper} % to the baseline's time"},
                       {.about = [](const Cell& c) { return c.paper && c.column == "combined"; },
                        .id = "table4/{row}/combined",
                        .statement = "{row}: forward and backward take {paper} ms"}}),
                  claims_of_settings(table4_statements), claims_of_settings(order_of_overheads)},
       .narrower = [](const Cell& cell) -> std::optional<policy::Tolerance> {
         if (cell.unit == "ms")
           return policy::Tolerance{0.03 * cell.paper.value(),
                                    "3 %, in a table that was fitted to"};
         return policy::Tolerance{1, "whole percents are printed, of times printed to 0.1 ms"};
       }});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
