#include <fmt/format.h>

#include <algorithm>

#include "experiments/korthikanti2022/steps.h"
#include "experiments/on_gpus.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

std::vector<Step> figure1_steps() {
  std::vector<Step> all;
  for (const Model& m : models())
    for (const Technique& technique : {baseline, present})
      all.push_back({case_id(m.config.name, technique), step_config(m, technique)});
  return all;
}

/// Weights, gradients and optimizer state of a GPU, in GiB: the mean over the stages, because the
/// paper divides the model by all GPUs.
double mean_state(const Record& record) {
  double sum = 0;
  const auto stages = static_cast<size_t>(record.config.pipeline_parallel);
  for (size_t stage = 0; stage < stages; ++stage)
    for (const Kind kind : {Kind::parameter, Kind::gradient, Kind::optimizer})
      sum += bytes_of(stage_of(record, stage).peak_per_kind, kind);
  return sum / static_cast<double>(stages) / gib;
}

/// With the activations in the layers of the first stage (equations 5 and 6).
double stage_total(const Record& record) {
  return mean_state(record) + static_cast<double>(stage_of(record, 0).peak_in_layers) / gib;
}

double most(const Record& record) {
  const auto& stages = record.memory.value().stages;
  return static_cast<double>(
             std::max_element(stages.begin(), stages.end(),
                              [](const auto& a, const auto& b) { return a.peak < b.peak; })
                 ->peak) /
         gib;
}

constexpr const char* most_baseline = "most of a stage, baseline";
constexpr const char* most_present = "most of a stage, present work";

std::vector<DeclaredCell> figure1_cells(const Setting&) {
  std::vector<DeclaredCell> cells;
  for (const Model& m : models()) {
    const std::string& name = m.config.name;
    const auto add = [&](const char* column, const Technique& technique,
                         double (*of)(const Record&)) {
      cells.push_back({name, column, "GiB", {case_id(name, technique)}, of});
    };
    add("parameters and optimizer state", present, mean_state);
    add("total, baseline", baseline, stage_total);
    add("total, present work", present, stage_total);
    add(most_baseline, baseline, most);
    add(most_present, present, most);
  }
  return cells;
}

/// The paper's bars are computed: a GPU that has too little memory for one does not contradict it.
void without_what_does_not_fit(Cell& cell, const DeclaredCell& /*declared*/, const Runs& /*runs*/) {
  if (cell.status == Status::oom) beside_nothing(cell);
}

/// Whether the cell is of a machine that counts what does not fit, at full size.
bool is_whole(const Cell& cell) { return cell.scale == 1 && cell.source == Source::simulated; }

/// Section 6.1, of everything that is held.
ClaimOfCells capacity(bool (*about)(const Cell&), Claim::Relation relation) {
  const bool fits = relation == Claim::Relation::at_most;
  return {.about = about,
          .id = fits ? "with-both-it-fits/{row}" : "without-both-nothing-fits/{row}",
          .statement = fmt::format(
              "{{row}}: {} sequence parallelism and selective recomputation it {} 80 GB",
              fits ? "with" : "without", fits ? "fits in" : "needs more than"),
          .relation = relation,
          .adjust = [](Claim& claim, const Cell& cell) {
            claim.paper = statement("without-both-nothing-fits").value;
            // Without effect the one would be as large as the other is in the paper.
            const bool at_most = claim.relation == Claim::Relation::at_most;
            const char* other = at_most ? "total, baseline" : "total, present work";
            policy::judge_exact(claim, paper_cell("figure1", cell.row, other).value,
                                "a GPU has 80 GiB, and not a byte more");
          }};
}

}  // namespace

/// Figure 1: what a GPU holds, as the paper counts it, and what the stage that holds most takes in
/// all. On a GPU, of the stages that ran: the first of those that have the same layers, which keeps
/// most microbatches.
const Artifact& figure1() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "figure1",
       .cases = also_on_gpus(step_memory_cases(papers_machine, figure1_steps()), steps_on_gpus),
       .cells = figure1_cells,
       .complete = without_what_does_not_fit,
       .divided = true,
       .claims = {claims_of_cells(
           {{.id = "figure1/{row}/{column}", .statement = "{row}: {column}, {paper} GiB on a GPU"},
            capacity([](const Cell& c) { return is_whole(c) && c.column == most_baseline; },
                     Claim::Relation::at_least),
            capacity([](const Cell& c) { return is_whole(c) && c.column == most_present; },
                     Claim::Relation::at_most)})},
       .expects_oom = true});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
