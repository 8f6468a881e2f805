#include "harness/report/commands/validation_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "harness/report/formats/junit.h"
#include "harness/report/table.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using Outcome = Finding::Outcome;

Table table_of_groups(const Validation& validation) {
  Table table{{{"group"}, {"question"}, {"passed", true}, {"failed", true}, {"not judged", true}},
              {}};
  for (const CheckGroup& group : check_groups()) {
    std::array<int, 3> counts{};
    for (const Finding& check : validation.checks)
      if (check.group == group.name) ++counts.at(static_cast<size_t>(check.outcome));
    const auto [passed, failed, skipped] = counts;
    if (passed + failed + skipped == 0) continue;
    table.rows.push_back({std::string(group.name), std::string(group.question),
                          std::to_string(passed), std::to_string(failed), std::to_string(skipped)});
  }
  return table;
}

/// What failed: in full.
std::string failures_text(const Validation& validation) {
  std::string text;
  for (const Finding& check : validation.checks)
    if (check.outcome == Outcome::failed)
      text += fmt::format("- {} {}: {}\n  seen: {}\n  expected: {}\n  allowed: {}\n  next: {}\n",
                          check.group, check.name, check.reason, check.seen, check.expected,
                          check.band, check.advice);
  return text.empty() ? "" : "\nWhat failed:\n\n" + text;
}

/// What was not judged: by the reason, in the order of the first.
std::string skipped_text(const Validation& validation) {
  struct Reason {
    std::string text, advice;
    std::vector<std::string> checks;
  };
  std::vector<Reason> reasons;
  for (const Finding& check : validation.checks) {
    if (check.outcome != Outcome::skipped) continue;
    auto found = std::find_if(reasons.begin(), reasons.end(), [&](const Reason& reason) {
      return reason.text == check.reason && reason.advice == check.advice;
    });
    if (found == reasons.end()) found = reasons.insert(found, {check.reason, check.advice, {}});
    found->checks.push_back(check.group + " " + check.name);
  }
  std::string text;
  for (const Reason& reason : reasons)
    text += fmt::format("- {}: {}{}\n", fmt::join(reason.checks, ", "), reason.text,
                        reason.advice.empty() ? "" : fmt::format("\n  next: {}", reason.advice));
  return text.empty() ? "" : "\nWhat was not judged:\n\n" + text;
}

/// What each probe came to, when nothing disturbed it.
Table table_of_series(const Validation& validation) {
  Table table{{{"measured"}, {"key"}, {"value"}, {"rounds", true}, {"left alone", true}}, {}};
  for (const Series& series : validation.series)
    table.rows.push_back({series.what, series.key, in_words(series.value(), series.unit),
                          std::to_string(series.bursts.size()),
                          std::to_string(series.undisturbed_bursts().size())});
  return table;
}

Table table_of_checks(const Validation& validation) {
  Table table{{{"group"}, {"check"}, {"outcome"}, {"seen"}, {"expected"}, {"allowed"}, {"reason"}},
              {}};
  for (const Finding& check : validation.checks)
    table.rows.push_back({check.group, check.name, std::string(name_of(check.outcome)), check.seen,
                          check.expected, check.band, check.reason});
  return table;
}

json series_json(const Series& series) {
  const Estimate value = series.value();
  json at = json::array(), fastest = json::array(), medians = json::array(), alone = json::array();
  for (const Burst& burst : series.bursts) {
    at.push_back(burst.at);
    fastest.push_back(burst.fastest);
    medians.push_back(burst.median);
    alone.push_back(burst.left_alone);
  }
  return {{"what", series.what},
          {"unit", series.unit},
          {"work", series.work},
          {"burst", series.burst},
          {"value", value.value},
          {"interval", {value.interval->low, value.interval->high}},
          {"at", at},
          {"fastest", fastest},
          {"median", medians},
          {"left_alone", alone}};
}

const char* verdict_of(const Validation& validation) {
  if (validation.computes_wrongly()) return "wrong";
  if (validation.count(Outcome::failed) > 0) return "fail";
  return validation.passes() ? "pass" : "undecided";
}

}  // namespace

std::string verdict_line(const Validation& validation) {
  const size_t passed = validation.count(Outcome::passed),
               failed = validation.count(Outcome::failed),
               skipped = validation.count(Outcome::skipped);
  const std::string rest = skipped == 0 ? "" : fmt::format("; {} could not be judged", skipped);
  if (validation.computes_wrongly())
    return fmt::format(
        "WRONG: {} of {} checks of correctness failed, so nothing was timed; this device must not "
        "be used",
        failed, passed + failed);
  if (failed > 0)
    return fmt::format("FAIL: {} of {} checks failed{}", failed, passed + failed, rest);
  if (!validation.passes())
    return fmt::format("UNDECIDED: none of {} checks could be judged", skipped);
  return fmt::format("PASS: all {} checks that could be made passed{}", passed, rest);
}

std::string validation_page(const Validation& validation, const std::string& device,
                            const std::string& format) {
  std::string page =
      fmt::format("{}\n{}; {:.0f} s{}\n\n", verdict_line(validation), device, validation.seconds,
                  validation.series.empty() ? "" : "; " + validation.disturbance.text());
  page += table_of_groups(validation).in(format);
  page += failures_text(validation) + skipped_text(validation);
  if (!validation.series.empty()) page += "\n" + table_of_series(validation).in(format);
  if (format == "markdown") page += "\n" + table_of_checks(validation).markdown();
  return page;
}

json to_json(const Validation& validation, const Target& target, const std::string& command) {
  json checks = json::array(), series = json::object();
  for (const Finding& check : validation.checks) checks.push_back(to_json(check));
  for (const Series& one : validation.series) series[one.key] = series_json(one);
  return {
      {"schema", Validation::schema},
      {"verdict", verdict_of(validation)},
      {"text", verdict_line(validation)},
      {"on", target.on()},
      {"device", target.device()},
      {"passed", validation.count(Outcome::passed)},
      {"failed", validation.count(Outcome::failed)},
      {"skipped", validation.count(Outcome::skipped)},
      {"seconds", validation.seconds},
      {"watched_seconds", validation.watched},
      {"order_seed", validation.order_seed},
      {"gpu_load",
       validation.gpu_load == GpuLoads() ? json(nullptr) : to_json(validation.gpu_load)},
      {"others", validation.disturbance.known ? json{{"processes", validation.disturbance.others},
                                                     {"steal", validation.disturbance.steal}}
                                              : json(nullptr)},
      {"checks", checks},
      {"series", series},
      {"command", command},
      {"started", validation.started},
      {"ended", validation.ended},
      {"environment", validation.environment}};
}

std::string validation_junit(const Validation& validation) {
  std::vector<JUnitCase> cases;
  for (const Finding& check : validation.checks) {
    JUnitCase::Outcome outcome = JUnitCase::Outcome::passed;
    if (check.outcome == Outcome::failed) outcome = JUnitCase::Outcome::failed;
    if (check.outcome == Outcome::skipped) outcome = JUnitCase::Outcome::skipped;
    cases.push_back({"validate/" + check.group, check.name, outcome, check.reason,
                     check.seen.empty() ? ""
                                        : fmt::format("{}; expected: {}; allowed: {}", check.seen,
                                                      check.expected, check.band),
                     check.seconds});
  }
  return junit_xml("frugal validate", cases);
}

}  // namespace frugal::harness
