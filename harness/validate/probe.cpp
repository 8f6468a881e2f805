#include "harness/validate/probe.h"

#include <algorithm>

#include "harness/measure/interrupt.h"

namespace frugal::harness {
namespace {

/// Of the undisturbed bursts' fastest: a neighbour on the same memory, or one that the kernel does
/// not know, may slow most of them down.
constexpr double undisturbed_quantile = 0.25;

ObservedTime observed_execution(const std::function<double()>& seconds,
                                const std::function<Waits()>& waits) {
  const Waits before = waits();
  const double taken = seconds();
  return {taken, left_alone(before, waits(), taken)};
}

Burst burst_of(const Probe& probe, double at, const std::function<Waits()>& waits) {
  std::vector<double> all, alone;
  for (int i = 0; i < probe.burst; ++i) {
    const ObservedTime execution =
        probe.execution ? probe.execution() : observed_execution(probe.seconds, waits);
    all.push_back(execution.seconds);
    if (execution.left_alone) alone.push_back(execution.seconds);
  }
  const std::vector<double>& counted = alone.empty() ? all : alone;
  return {at, quantile(counted, 0), median(counted), !alone.empty()};
}

}  // namespace

std::vector<double> fastest_of(const std::vector<Burst>& bursts) {
  std::vector<double> all;
  for (const Burst& burst : bursts) all.push_back(burst.fastest);
  return all;
}

std::vector<Burst> Series::undisturbed_bursts() const {
  std::vector<Burst> found;
  for (const Burst& burst : bursts)
    if (burst.left_alone) found.push_back(burst);
  return found;
}

bool Series::judgeable() const { return undisturbed_bursts().size() >= interval_minimum; }

Estimate Series::undisturbed() const {
  return quantile_estimate(fastest_of(judgeable() ? undisturbed_bursts() : bursts),
                           undisturbed_quantile);
}

Estimate Series::value() const {
  Estimate estimate = undisturbed();
  if (work == 0) return estimate;
  if (estimate.interval)
    estimate.interval = {work / estimate.interval->high, work / estimate.interval->low};
  estimate.value = work / estimate.value;
  return estimate;
}

Estimate Series::speed(double expected) const {
  Estimate estimate = value();
  const auto relative = [&](double x) { return work == 0 ? expected / x : x / expected; };
  if (estimate.interval) {
    const auto [low, high] =
        std::minmax({relative(estimate.interval->low), relative(estimate.interval->high)});
    estimate.interval = {low, high};
  }
  estimate.value = relative(estimate.value);
  return estimate;
}

std::vector<Series> watch(const std::vector<Probe>& probes, const WatchPlan& plan,
                          const std::function<double()>& clock,
                          const std::function<Waits()>& waits) {
  std::vector<Series> all;
  for (const Probe& probe : probes)
    all.push_back({probe.key, probe.what, probe.unit, probe.work, probe.burst, {}});
  RoundOrder order(probes.size(), plan.order_seed);
  const double start = clock();
  for (int round = -1; round < plan.rounds || clock() - start < plan.seconds; ++round)
    for (const size_t i : order.next()) {
      stop_if_interrupted();
      const Burst burst = burst_of(probes[i], clock() - start, waits);
      if (round >= 0) all[i].bursts.push_back(burst);
    }
  return all;
}

}  // namespace frugal::harness
