#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "experiments/korthikanti2022/layers.h"
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

using Samples = std::vector<double>;

/// Throws InputError unless the samples of all these records were taken in the same rounds: only
/// then does what slowed one of them down cancel.
void require_same_rounds(std::initializer_list<const Record*> records) {
  const auto count = [](const Record& r) { return r.samples(metric::forward_time).size(); };
  const Record& first = **records.begin();
  for (const Record* r : records)
    if (r->rounds != first.rounds || count(*r) != count(first))
      throw InputError(fmt::format(
          "{} and {} were not timed in the same rounds; run this artifact again with --rerun all",
          first.case_id, r->case_id));
}

Samples combine(const Samples& a, const Samples& b,
                const std::function<double(double, double)>& f) {
  if (a.size() != b.size()) throw InputError("samples that are combined must be equally many");
  Samples c(a.size());
  std::transform(a.begin(), a.end(), b.begin(), c.begin(), f);
  return c;
}

Samples forward_samples(const Record& record) { return record.samples(metric::forward_time); }
Samples backward_samples(const Record& record) { return record.samples(metric::backward_time); }
Samples combined(const Record& record) {
  return combine(forward_samples(record), backward_samples(record), std::plus<>());
}

/// offset + factor · x.
Estimate scaled(Estimate x, double factor, double offset) {
  const auto map = [&](double y) { return offset + factor * y; };
  x.value = map(x.value);
  if (x.interval) {
    const auto [low, high] = std::minmax({map(x.interval->low), map(x.interval->high)});
    x.interval = Interval{low, high};
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

/// What a reader of a cell has to know, and where milliseconds are the paper's.
void complete_table4(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  if (runs.setting().source == Source::simulated) {
    cell.note = declared.papers
                    ? fitted_note
                    : cell.note + "; the machine's model of fused attention is not calibrated";
  } else {
    const Record* record = runs.find(declared.cases.back()).record;
    const std::string papers = std::exchange(cell.note, "");
    if (record != nullptr)
      cell.note = circumstances(*record) + (papers.empty() ? "" : "; " + papers);
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
    add(column, "ms", {technique}, [samples = samples](const Record& r) {
      return scaled(median_estimate(samples(r)), 1e3, 0);
    });
  if (technique.id == base.id) return;
  add("overhead", "%", {base, technique}, [](const Record& without, const Record& ours) {
    require_same_rounds({&without, &ours});
    return scaled(paired_ratio(combined(ours), combined(without)), 100, -100);
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
  const Samples gained = combine(combined(all), combined(ours), std::minus<>());
  const Samples lost = combine(combined(all), combined(base), std::minus<>());
  return scaled(paired_ratio(gained, lost), 100, 0);
}

Estimate percent_saved(const Record& base, const Record& ours) {
  require_same_rounds({&base, &ours});
  return scaled(paired_ratio(forward_samples(ours), forward_samples(base)), -100, 100);
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
  removed.relation = Claim::Relation::at_least;
  const Claim saved =
      stated("sp-forward", "sequence parallelism makes the forward pass 6 % shorter", sequence,
             percent_saved, {base});
  return {removed, saved};
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
                  claims_of_settings(table4_statements)},
       .narrower = [](const Cell& cell) -> std::optional<policy::Tolerance> {
         if (cell.unit == "ms")
           return policy::Tolerance{0.03 * cell.paper.value(),
                                    "3 %, in a table that was fitted to"};
         return policy::Tolerance{1, "whole percents are printed, of times printed to 0.1 ms"};
       }});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
