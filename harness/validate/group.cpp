#include "harness/validate/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report/table.h"

namespace frugal::harness {
namespace {

struct Scaled {
  double factor;
  std::string unit;
};

/// With one to three digits before the point.
Scaled scaled(double value, const std::string& unit) {
  if (unit != "s" && unit != "FLOP/s" && unit != "B/s") return {1, unit == "1" ? "" : unit};
  static constexpr std::pair<double, const char*> prefixes[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}};
  for (const auto& [factor, prefix] : prefixes)
    if (value >= factor) return {factor, prefix + unit};
  return {1e-9, "n" + unit};
}

}  // namespace

std::string in_words(double value, const std::string& unit) {
  const auto [factor, name] = scaled(value, unit);
  return fmt::format("{:.3g}{}{}", value / factor, name.empty() ? "" : " ", name);
}

std::string in_words(const Estimate& estimate, const std::string& unit) {
  if (!estimate.interval) return in_words(estimate.value, unit);
  const auto [factor, name] = scaled(estimate.value, unit);
  return fmt::format("{:.3g} [{:.3g}, {:.3g}]{}{}", estimate.value / factor,
                     estimate.interval->low / factor, estimate.interval->high / factor,
                     name.empty() ? "" : " ", name);
}

const Series* Watched::find(std::string_view key) const {
  for (const Series& one : series)
    if (one.key == key) return &one;
  return nullptr;
}

std::vector<const Series*> Watched::all(std::string_view prefix) const {
  std::vector<const Series*> found;
  for (const Series& one : series)
    if (one.key.starts_with(prefix)) found.push_back(&one);
  return found;
}

std::vector<Finding> of_each_device(const std::vector<Rank*>& devices,
                                    const std::function<std::vector<Finding>(Rank&)>& check) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < devices.size(); ++i)
    for (Finding& finding : check(*devices[i])) {
      if (devices.size() > 1) finding.name = fmt::format("gpu {}/{}", i, finding.name);
      findings.push_back(std::move(finding));
    }
  return findings;
}

const std::vector<CheckGroup>& check_groups() {
  static const std::vector<CheckGroup> all = {
      operations_group(), products_group(), peaks_group(), rooflines_group(), collectives_group(),
      models_group(),     ranks_group(),    drift_group(), variation_group(), gpus_group()};
  return all;
}

Finding unless_disturbed(Finding finding, bool judgeable, const Disturbance& disturbance) {
  if (judgeable || finding.outcome != Finding::Outcome::failed) return finding;
  finding.outcome = Finding::Outcome::skipped;
  finding.reason =
      "too few executions were left alone by others to say that it is slow; " + disturbance.text();
  finding.advice = Disturbance::advice;
  return finding;
}

std::vector<Finding> against_expectations(std::string_view group, const Watched& watched,
                                          const Series& series, std::vector<Expectation> given) {
  std::vector<Finding> checks;
  std::vector<Expectation> all = watched.expectations.of(series.key);
  all.insert(all.end(), given.begin(), given.end());
  for (const Expectation& expectation : all) {
    const Estimate speed = series.speed(expectation.value);
    Finding check{std::string(group), series.key};
    check.expected =
        fmt::format("{}, {}", in_words(expectation.value, series.unit), expectation.source);
    check.seen = fmt::format("{}: {}", series.what, in_words(series.value(), series.unit));
    check.band = fmt::format("at least {} of it: as far from all of it as from half", least_speed);
    const bool longer = series.work == 0;
    check.number =
        Finding::Number{series.unit, series.value(), expectation,
                        longer ? expectation.value / least_speed : expectation.value * least_speed};
    if (speed.interval.value_or(Interval{speed.value, speed.value}).high < least_speed) {
      check.outcome = Finding::Outcome::failed;
      check.reason =
          fmt::format("{:.0f} % of the speed of {}", 100 * speed.value, expectation.source);
      check.advice = "compare clocks, memory and link state with a machine that passes";
    }
    checks.push_back(unless_disturbed(std::move(check), series.judgeable(), watched.disturbance));
  }
  if (!checks.empty()) return checks;
  checks.push_back(skipped_finding(
      std::string(group), series.key, watched.expectations.why_none(),
      "on a machine that is known to be right: frugal validate --write-reference FILE; then "
      "--reference FILE"));
  checks.back().seen = fmt::format("{}: {}", series.what, in_words(series.value(), series.unit));
  return checks;
}

}  // namespace frugal::harness
