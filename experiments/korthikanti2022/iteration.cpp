#include "experiments/korthikanti2022/iteration.h"

#include <fmt/format.h>

#include "experiments/korthikanti2022/formulas.h"
#include "experiments/korthikanti2022/step_artifact.h"

namespace frugal::korthikanti2022 {
namespace {

/// All microbatches of the global batch.
RunConfig config_of(const Iteration& iteration) {
  const Model& of = model(iteration.model);
  RunConfig run = step_config(of, iteration.technique);
  run.microbatches = of.global_batch / of.micro_batch;
  run.data_parallel = static_cast<int>(iteration.replicas);
  run.kept_microbatches = iteration.kept;
  return run;
}

double percent_of_peak(const Record& record, double flops) {
  return 100 * utilization(flops, seconds(record), static_cast<double>(record.config.ranks()),
                           peak_flops_per_gpu());
}

double sequences(const Record& record) {
  return static_cast<double>(record.config.micro_batch * record.config.batch_microbatches());
}

}  // namespace

std::string case_id(const Iteration& iteration) {
  std::string id = fmt::format("{}/{}", iteration.model, iteration.technique.id);
  if (iteration.replicas > 1) id += fmt::format("/x{}", iteration.replicas);
  if (iteration.kept > 0) id += fmt::format("/{}-kept", iteration.kept);
  return id;
}

Case case_of(const Iteration& iteration) {
  return {.id = case_id(iteration),
          .what = Case::What::training,
          .config = config_of(iteration),
          .on = fmt::format("virtual:{}", papers_machine)};
}

double seconds(const Record& record) { return median(record.samples(metric::step_time)); }

double mfu(const Record& record) {
  return percent_of_peak(record, model_flops(record.config.model, sequences(record)));
}

double hfu(const Record& record) {
  return percent_of_peak(record, hardware_flops_eq8(record.config.model, sequences(record)));
}

std::vector<Case> IterationArtifact::cases(const Selection& selection) const {
  if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return {};
  std::vector<Case> cases;
  for (const Iteration& iteration : iterations_) cases.push_back(case_of(iteration));
  return cases;
}

std::vector<Cell> IterationArtifact::cells(const Records& records) const {
  std::vector<Cell> all;
  for (const Setting& setting : records.settings(id()))
    for (Cell& cell : cells_in(setting, records)) all.push_back(std::move(cell));
  return all;
}

Found IterationArtifact::find(const Iteration& iteration, const Setting& setting,
                              const Records& records) const {
  return find_case(records, id(), case_id(iteration), setting);
}

Cell IterationArtifact::make_cell(std::string_view row, std::string_view column,
                                  std::string_view unit, const Setting& setting,
                                  const Outcome& outcome) const {
  return frugal::make_cell(paper(), name_, row, column, unit, setting, outcome);
}

}  // namespace frugal::korthikanti2022
