#include "harness/validate/probe.h"

#include <algorithm>

#include "harness/measure/interrupt.h"

namespace frugal::harness {
namespace {

/// Of the bursts' fastest: nine of ten may be disturbed, and it still is one that was not.
constexpr double undisturbed_quantile = 0.05;

Burst burst_of(const Probe& probe, double at) {
  std::vector<double> seconds;
  for (int i = 0; i < probe.burst; ++i) seconds.push_back(probe.seconds());
  return {at, quantile(seconds, 0), median(seconds)};
}

}  // namespace

std::vector<double> Series::fastest() const {
  std::vector<double> all;
  for (const Burst& burst : bursts) all.push_back(burst.fastest);
  return all;
}

std::vector<double> Series::times() const {
  std::vector<double> all;
  for (const Burst& burst : bursts) all.push_back(burst.at);
  return all;
}

Estimate Series::undisturbed() const { return quantile_estimate(fastest(), undisturbed_quantile); }

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
                          const std::function<double()>& clock) {
  std::vector<Series> all;
  for (const Probe& probe : probes)
    all.push_back({probe.key, probe.what, probe.unit, probe.work, probe.burst, {}});
  const double start = clock();
  for (int round = -1; round < plan.rounds || clock() - start < plan.seconds; ++round)
    for (size_t i = 0; i < probes.size(); ++i) {
      stop_if_interrupted();
      const Burst burst = burst_of(probes[i], clock() - start);
      if (round >= 0) all[i].bursts.push_back(burst);
    }
  return all;
}

}  // namespace frugal::harness
