#include "harness/validate/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "harness/place/environment.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// Long enough for a drift of 10 % a minute to be told from noise; and of the quick one's minute
/// what correctness, and making what is timed, leave.
constexpr double watch_seconds = 80, quick_watch_seconds = 38;

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

void add_checks(std::vector<Finding>& checks, std::vector<Finding> more) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
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
  validation.environment = environment(target.kind());
  const std::vector<CheckGroup> groups = chosen_groups(plan.groups);
  Workbench bench(target, plan.quick);
  for (const CheckGroup& group : groups) {
    if (group.before == nullptr) continue;
    says(fmt::format("{}: {}", group.name, group.question));
    add_checks(validation.checks, group.before(bench));
  }
  if (!validation.computes_wrongly()) {
    const auto states = [&] { return bench.on_gpu() ? gpu_states() : GpuStates(); };
    const GpuStates before = states();
    const std::vector<Probe> probes = probes_of(groups, bench);
    WatchPlan watching{plan.quick ? quick_watch_seconds : watch_seconds};
    if (plan.seconds > 0) watching.seconds = plan.seconds;
    if (probes.empty()) watching = {0, 0};
    says(fmt::format("timing {} things by turns for {:.0f} s", probes.size(), watching.seconds));
    const ProcessorTimes then = ProcessorTimes::now();
    const double watch_start = steady_seconds();
    validation.series = watch(probes, watching);
    validation.watched = steady_seconds() - watch_start;
    validation.disturbance = ProcessorTimes::now().since(then);
    const Watched watched{
        bench,  expectations, validation.series, validation.watched, validation.disturbance,
        before, states()};
    for (const CheckGroup& group : groups)
      if (group.judge != nullptr) add_checks(validation.checks, group.judge(watched));
  }
  validation.environment = nlohmann::json::parse(ended(validation.environment.dump()));
  validation.ended = utc_now();
  validation.seconds = steady_seconds() - start;
  return validation;
}

}  // namespace frugal::harness
