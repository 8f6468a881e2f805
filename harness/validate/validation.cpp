#include "harness/validate/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "harness/measure/gpu_watch.h"
#include "harness/place/environment.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// How long things are timed, in seconds. Long enough for a drift of 10 % a minute to be told from
/// noise; of the quick one's minute it is what correctness, and making what is timed, leave.
double watch_seconds(const ValidationPlan& plan, double so_far) {
  constexpr double thorough = 80, quick = 38, least = 20, minute = 55;
  if (plan.seconds > 0) return plan.seconds;
  return plan.quick ? std::clamp(minute - so_far, least, quick) : thorough;
}

std::vector<Probe> probes_of(const std::vector<CheckGroup>& groups, Workbench& bench) {
  std::vector<Probe> probes;
  std::set<std::string> known;
  for (const CheckGroup& group : groups) {
    if (group.probes == nullptr) continue;
    for (Probe& probe : group.probes(bench))
      if (known.insert(probe.key).second) probes.push_back(std::move(probe));
  }
  return probes;
}

GpuStates states_of(const Workbench& bench) { return bench.on_gpu() ? gpu_states() : GpuStates(); }

/// Load of the GPUs since then.
GpuLoads load_since(double start, GpuWatch& watch) {
  const std::string why = why_no_gpu_states();
  if (!why.empty()) return {{}, why};
  std::vector<int> gpus(harness::gpus().size());
  std::iota(gpus.begin(), gpus.end(), 0);
  return load_in(watch.moments(), {{start, steady_seconds()}}, gpus);
}

/// Times the probes, and notes what went on meanwhile.
Watched watched(Workbench& bench, const Expectations& expectations,
                const std::vector<Probe>& probes, const WatchPlan& plan) {
  Watched seen{.bench = bench,
               .expectations = expectations,
               .series = {},
               .disturbance = {},
               .gpus_before = states_of(bench),
               .gpus_after = {},
               .gpu_load = {}};
  std::optional<GpuWatch> gpu_watch;
  if (bench.on_gpu()) gpu_watch.emplace();
  const ProcessorTimes then = ProcessorTimes::now();
  const double start = steady_seconds();
  if (!probes.empty()) seen.series = watch(probes, plan);
  seen.seconds = steady_seconds() - start;
  seen.disturbance = ProcessorTimes::now().since(then);
  if (gpu_watch) seen.gpu_load = load_since(start, *gpu_watch);
  seen.gpus_after = states_of(bench);
  return seen;
}

void add_findings(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

void judge(Validation& validation, const Watched& seen, const std::vector<CheckGroup>& groups) {
  for (const CheckGroup& group : groups)
    if (group.judge != nullptr) add_findings(validation.checks, group.judge(seen));
  validation.series = seen.series;
  validation.watched = seen.seconds;
  validation.gpu_load = seen.gpu_load;
  validation.disturbance = seen.disturbance;
}

}  // namespace

size_t Validation::count(Finding::Outcome outcome) const {
  return static_cast<size_t>(std::count_if(checks.begin(), checks.end(), [&](const Finding& check) {
    return check.outcome == outcome;
  }));
}

bool Validation::computes_wrongly() const {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Finding& check) { return check.computes_wrongly; });
}

bool Validation::passes() const {
  return count(Finding::Outcome::failed) == 0 && count(Finding::Outcome::passed) > 0;
}

std::vector<CheckGroup> chosen_groups(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const CheckGroup& group : check_groups()) all.emplace_back(group.name);
  for (const std::string& name : names)
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      const auto similar = nearest(name, all);
      throw InputError(
          fmt::format("--group is \"{}\"; {}it must be one of {}", name,
                      similar.empty() ? "" : fmt::format("did you mean {}? ", similar.front()),
                      fmt::join(all, ", ")));
    }
  if (names.empty()) return check_groups();
  std::vector<CheckGroup> chosen;
  for (const CheckGroup& group : check_groups())
    if (std::find(names.begin(), names.end(), group.name) != names.end()) chosen.push_back(group);
  return chosen;
}

Validation validate(const Target& target, const Expectations& expectations,
                    const ValidationPlan& plan, const std::function<void(std::string)>& says) {
  Validation validation;
  const double start = steady_seconds();
  validation.started = utc_now();
  validation.order_seed = std::random_device()();
  validation.environment = environment(target.kind());
  const std::vector<CheckGroup> groups = chosen_groups(plan.groups);
  Workbench bench(target, plan.quick);
  for (const CheckGroup& group : groups) {
    if (group.before == nullptr) continue;
    says(fmt::format("{}: {}", group.name, group.question));
    add_findings(validation.checks, group.before(bench));
  }
  if (!validation.computes_wrongly()) {
    const std::vector<Probe> probes = probes_of(groups, bench);
    const double seconds = watch_seconds(plan, steady_seconds() - start);
    if (!probes.empty())
      says(fmt::format("timing {} things by turns for {:.0f} s, in orders of seed {}",
                       probes.size(), seconds, validation.order_seed));
    judge(validation,
          watched(bench, expectations, probes,
                  {.seconds = seconds, .order_seed = validation.order_seed}),
          groups);
  }
  validation.environment = nlohmann::json::parse(ended(validation.environment.dump()));
  validation.ended = utc_now();
  validation.seconds = steady_seconds() - start;
  return validation;
}

}  // namespace frugal::harness
