#include "experiments/korthikanti2022/steps.h"

#include <fmt/format.h>

#include "experiments/korthikanti2022/formulas.h"

namespace frugal::experiments::korthikanti2022 {
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

RunConfig step_config(const Model& model, const Technique& technique) {
  RunConfig run = layer_config(model, technique);
  const int64_t p = model.pipeline_parallel;
  run.pipeline_parallel = static_cast<int>(p);
  run.chunks = static_cast<int>(model.interleave);
  run.schedule =
      model.interleave > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
  run.microbatches = std::min(model.global_batch / model.micro_batch, 2 * p);
  return run;
}

std::string case_id(const Iteration& iteration) {
  std::string id = fmt::format("{}/{}", iteration.model, iteration.technique.id);
  if (iteration.replicas > 1) id += fmt::format("/x{}", iteration.replicas);
  if (iteration.kept > 0) id += fmt::format("/{}-kept", iteration.kept);
  return id;
}

Cases iteration_cases(std::vector<Iteration> iterations) {
  return [iterations = std::move(iterations)](const Selection& selection) {
    std::vector<Case> cases;
    if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return cases;
    for (const Iteration& iteration : iterations)
      cases.push_back({.id = case_id(iteration),
                       .config = config_of(iteration),
                       .workload = Training{},
                       .on = fmt::format("virtual:{}", papers_machine)});
    return cases;
  };
}

double seconds(const Record& record) { return median(record.samples(metric::step_time)); }

double mfu(const Record& record) {
  return percent_of_peak(record, model_flops(record.config.model, sequences(record)));
}

double hfu(const Record& record) {
  return percent_of_peak(record, hardware_flops_eq8(record.config.model, sequences(record)));
}

std::optional<policy::Tolerance> utilization_tolerance(const Cell& cell) {
  if (!cell.column.ends_with("FU")) return std::nullopt;
  return policy::Tolerance{1.5, "1.5 points of a utilization"};
}

}  // namespace frugal::experiments::korthikanti2022
