#include <fmt/format.h>

#include <array>

#include "experiments/artifacts.h"
#include "experiments/declaration.h"
#include "experiments/mst2024/paper.h"
#include "harness/measure/runs/training.h"

namespace frugal::experiments::mst2024 {
namespace {

/// A row of table 6: a model at its sequence length, and sequences of a step.
struct ThroughputRow {
  const char* model;
  int64_t sequence;
  Technique technique;
  int64_t batch;

  std::string name() const { return fmt::format("{} {}, batch {}", model, technique.name, batch); }
};
constexpr const char *llama3 = "llama3-8b", *llama2 = "llama2-7b";
constexpr int64_t length3 = 8192, length2 = 4096;
constexpr ThroughputRow llama3_recomputed{llama3, length3, recomputation, 2},
    llama3_mini_sequence{llama3, length3, mini_sequence, 2},
    llama2_vanilla{llama2, length2, vanilla, 1},
    llama2_mini_sequence{llama2, length2, mini_sequence_alone, 1};
constexpr std::array throughput_rows{
    llama3_recomputed,
    llama3_mini_sequence,
    ThroughputRow{llama3, length3, mini_sequence, 8},
    llama2_vanilla,
    llama2_mini_sequence,
    ThroughputRow{llama2, length2, recomputation, 1},
    ThroughputRow{llama2, length2, mini_sequence, 1},
    ThroughputRow{llama2, length2, mini_sequence, 16},
};

/// All sequences are one microbatch: the paper's batches have about as many tokens as its longest
/// sequences (tables 2 and 3: 8 of 8192 beside 60K), which accumulated ones would not be bounded
/// by.
RunConfig step_config(const ThroughputRow& row) {
  RunConfig run = training_config(row.model, row.technique, row.sequence);
  run.micro_batch = row.batch;
  return run;
}

/// What the mini-sequences of a row cost beside the same without them, and why here it differs.
struct Price {
  ThroughputRow with, without;
  const char* why;
};
constexpr std::array prices{
    Price{
        llama3_mini_sequence, llama3_recomputed,
        "an MLP in parts leaves out what recomputing a layer does in vain, its second linear map; "
        "that parts read the head's weights and read and write their gradient takes 0.2 % here"},
    Price{
        llama2_mini_sequence, llama2_vanilla,
        "the MLP has one part at 4096 tokens; that the head's parts read its weights and read and "
        "write their gradient takes 0.1 % here"},
};

double seconds(const Record& record) { return median(record.samples(metric::step_time)); }

double tokens_per_second(const Record& record) {
  const RunConfig& c = record.config;
  return static_cast<double>(c.micro_batch * c.model.sequence) / seconds(record);
}

double printed(const ThroughputRow& row) {
  return paper().cell("table6", row.name(), "step").value;
}

std::vector<Case> table6_cases(const Selection& selection) {
  std::vector<Case> cases;
  if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return cases;
  for (const ThroughputRow& row : throughput_rows) {
    const RunConfig config = step_config(row);
    cases.push_back({.id = row.name(),
                     .config = config,
                     .workload = Training{.train = {.optimizer = default_optimizer(config)}},
                     .on = std::string("virtual:") + papers_machine});
  }
  return cases;
}

std::vector<DeclaredCell> table6_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const ThroughputRow& row : throughput_rows) {
    cells.push_back({row.name(), "step", "s", {row.name()}, seconds});
    cells.push_back({row.name(), "throughput", "tokens/s", {row.name()}, tokens_per_second});
  }
  return cells;
}

void complete_table6(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  if (const Found found = runs.find(declared.cases.front()); found.record != nullptr)
    cell.note = found.record->device;
}

/// What the mini-sequences themselves cost, which no machine's description decides alone.
std::vector<Claim> table6_prices(const Results::InSetting& in) {
  std::vector<Claim> claims;
  for (const auto& [with, without, why] : prices) {
    const double theirs = printed(with) / printed(without);
    Claim& claim = claims.emplace_back(claim_of(
        fmt::format("throughput/{}", with.name()),
        fmt::format("{}: a step takes {:.3f} times as long as with {}", with.name(), theirs,
                    without.technique.name),
        "x", theirs, in.runs.setting(),
        in.runs.outcome({without.name(), with.name()},
                        [](const Record& b, const Record& a) { return seconds(a) / seconds(b); })));
    policy::judge(claim,
                  {.made = policy::Made::compared, .value = theirs, .unit = "x", .no_effect = {1}},
                  policy::Tolerance{0.02, "seconds are printed to two digits behind the point"});
    if (claim.value) claim.reason = why;
  }
  return claims;
}

}  // namespace

/// Table 6: seconds and tokens per second of a training step.
const Artifact& table6() {
  static const DeclaredArtifact artifact({.paper = paper(),
                                          .name = "table6",
                                          .program = papers_program,
                                          .cases = table6_cases,
                                          .cells = table6_cells,
                                          .complete = complete_table6,
                                          .claims = {claims_of_settings(table6_prices)},
                                          .expects_oom = true});
  return artifact;
}

}  // namespace frugal::experiments::mst2024
