#include "experiments/on_gpus.h"

#include <algorithm>

namespace frugal::experiments {
namespace {

/// `name`: of a metric.
template <const char* const* name>
Estimate part(const Record& record) {
  return median_of(record, *name);
}

void take_steps(Case& c, int64_t least) {
  if (auto* const training = std::get_if<Training>(&c.workload))
    training->train.steps = std::max(training->train.steps, least);
  for (Case& smaller : c.smaller) take_steps(smaller, least);
}

}  // namespace

const std::array<StepPart, 3> step_parts = {
    {{"computation", part<&metric::computation_time>},
     {"communication, modelled", part<&metric::communication_time>},
     {"bubble, walked", part<&metric::bubble_time>}}};

Case on_gpus(Case c, const GpuSelection& gpus) {
  c.on = "cuda";
  c.lone_rank = gpus.lone_rank(c.config);
  if (c.skip.empty()) c.skip = gpus.skip(c.config);
  for (Case& smaller : c.smaller) smaller = on_gpus(std::move(smaller), gpus);
  return c;
}

Cases also_on_gpus(Cases own, int64_t steps) {
  return [own = std::move(own), steps](const Selection& selection) {
    std::vector<Case> cases = own(selection);
    if (!selection.cuda) return cases;
    Selection there = selection;
    there.virtual_machine = true;
    there.cpu = false;
    there.cuda.reset();
    for (Case& c : own(there)) {
      take_steps(c, steps);
      cases.push_back(on_gpus(std::move(c), *selection.cuda));
    }
    return cases;
  };
}

Estimate median_of(const Record& record, const char* metric) {
  const std::vector<double>& samples = record.samples(metric);
  if (record.source == Source::measured) return median_estimate(samples);
  return {median(samples)};
}

bool has_step_parts(const Setting& setting, const RunConfig& config) {
  return !setting.links.empty() && config.pipeline_parallel > 1;
}

}  // namespace frugal::experiments
