#include <fmt/format.h>

#include <numeric>

#include "engine/plan/lone_stage.h"
#include "experiments/korthikanti2022/steps.h"
#include "experiments/on_gpus.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

/// Cases, and the figure's rows of them.
constexpr const char* keeping = "530B/kept-outputs";
constexpr const char* deallocating = "530B/deallocation";
constexpr std::pair<const char*, const char*> figure9_rows[] = {{"no deallocation", keeping},
                                                                {"deallocation", deallocating}};

/// What figure 9's numbers follow from: full recomputation without sequence parallelism, and a
/// pipeline that is not interleaved.
RunConfig figure9_config() {
  RunConfig run = step_config(model("530B"), full);
  run.schedule = ScheduleKind::one_forward_one_backward;
  run.chunks = 1;
  return run;
}

Cases figure9_cases() {
  std::vector<Step> all{{deallocating, figure9_config()}, {keeping, figure9_config()}};
  all.back().config.keep_outputs = true;
  return step_memory_cases(papers_machine, std::move(all));
}

/// Activations and what passes work in, at the peak; without messages on their way and what does
/// not come and go with microbatches.
double in_passes(const StageMemory& stage) {
  return bytes_of(stage.at_peak, Kind::activation) + bytes_of(stage.at_peak, Kind::statistics) +
         bytes_of(stage.at_peak, Kind::workspace);
}

/// All ranks, or where stages run alone, those that ran: others keep fewer microbatches.
std::vector<int> ranks_in(const Setting& setting) {
  const RunConfig run = figure9_config();
  if (has_step_parts(setting, run)) return distinct_stages(run);
  std::vector<int> all(static_cast<size_t>(run.pipeline_parallel));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<DeclaredCell> figure9_cells(const Setting& setting) {
  std::vector<DeclaredCell> cells;
  for (const auto& [row, id] : figure9_rows)
    for (const int rank : ranks_in(setting))
      cells.push_back(
          {row, fmt::format("rank {}", rank), "GiB", {id}, [rank](const Record& record) {
             return in_passes(stage_of(record, static_cast<size_t>(rank))) / gib;
           }});
  return cells;
}

double kept_by_first(const Record& record) {
  return bytes_of(stage_of(record, 0).peak_per_kind, Kind::activation);
}

std::vector<DeclaredCell> appendix_b_cells(const Setting&) {
  return {{"530B", "saving", "GiB", {keeping, deallocating}, [](const Record& a, const Record& b) {
             return (kept_by_first(a) - kept_by_first(b)) / gib;
           }}};
}

}  // namespace

/// Figure 9: memory of each rank of the pipeline.
const Artifact& figure9() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "figure9",
       .program = papers_program,
       .cases = also_on_gpus(figure9_cases(), steps_on_gpus),
       .cells = figure9_cells,
       .claims = {claims_of_cells(
           {{.id = "figure9/{row}/{column}",
             .statement = "530B, {row}, {column}: {paper} GiB of activations"}})},
       .narrower =
           [](const Cell&) {
             return policy::Tolerance{0.05, "0.05 GiB, of the first rank less than it is read to"};
           },
       .expects_oom = true});
  return artifact;
}

/// Appendix B: the same two steps, and what the first stage keeps in them.
const Artifact& appendix_b() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "appendixB",
       .program = papers_program,
       .cases = figure9_cases(),
       .cells = appendix_b_cells,
       .claims = {claims_of_cells({{.id = "appendixB/530B",
                                    .statement = "530B: the first stage keeps 2.73 GiB less when "
                                                 "it gives up what it has sent"}})}});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
