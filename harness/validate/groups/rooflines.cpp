// Whether what moves memory moves it at one rate: each memory-bound operation, a copy among them,
// against the median of all.
#include <fmt/format.h>

#include <array>

#include "harness/validate/group.h"
#include "harness/validate/groups/out_of_cache.h"

namespace frugal::harness {
namespace {

/// Operations that read, that write and that do both.
constexpr std::array validated_rows = {"gelu", "gelu-backward", "layer-norm", "bias-dropout-add",
                                       "sum",  "convert/narrow"};
/// Of the median rate. An operation at half its rate is below it, if it was not above 1.3 of the
/// median before; a sound one is not (bench/validate_trials.py tries both).
constexpr double least_of_median = 0.65;

std::vector<Probe> roofline_probes(Workbench& bench) {
  std::vector<Probe> probes = {copy_probe(bench)};
  for (const char* row : validated_rows) probes.push_back(row_probe(bench, row));
  return probes;
}

std::vector<Finding> judge_rooflines(const Watched& watched) {
  std::vector<const Series*> all = watched.all("memory/");
  std::vector<double> rates;
  for (const Series* series : all) rates.push_back(series->value().value);
  const double middle = median(rates);
  std::vector<Finding> checks;
  for (const Series* series : all) {
    const Estimate rate = series->value();
    Finding check{"rooflines", series->key};
    const std::string source =
        fmt::format("the median of {} memory-bound operations here", all.size());
    check.expected = fmt::format("{}, {}", in_words(middle, "B/s"), source);
    check.seen = fmt::format("{}: {}", series->what, in_words(rate, "B/s"));
    check.band = fmt::format("at least {} of it: one at half its rate is below", least_of_median);
    check.number = Finding::Number{"B/s", rate, {middle, source}, least_of_median * middle};
    if (rate.interval->high < least_of_median * middle) {
      check.outcome = Finding::Outcome::failed;
      check.reason = fmt::format("{:.0f} % of the rate of the others", 100 * rate.value / middle);
      check.advice = "frugal bench memory-bound shows all of them beside a copy";
    }
    checks.push_back(unless_disturbed(std::move(check), series->judgeable(), watched.disturbance));
  }
  return checks;
}

}  // namespace

CheckGroup rooflines_group() {
  return {.name = "rooflines",
          .question = "do memory-bound operations and copies move memory at one rate?",
          .probes = roofline_probes,
          .judge = judge_rooflines};
}

}  // namespace frugal::harness
