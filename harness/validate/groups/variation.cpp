// Whether what is timed takes the same time from round to round.
#include <fmt/format.h>

#include "harness/validate/group.h"

namespace frugal::harness {
namespace {

/// The most that the middle half of the rounds may be apart, of their median. An unstable clock or
/// a link that is trained again moves times by tens of percent.
constexpr double widest = 0.25;

Finding check_of_variation(const Watched& watched, const Series& series) {
  if (!series.judgeable())
    return skipped_finding(
        "variation", series.key,
        "too few executions were left alone by others; " + watched.disturbance.text(),
        Disturbance::advice);
  const std::vector<double> fastest = fastest_of(series.undisturbed_bursts());
  const double middle = median(fastest);
  const double width = (quantile(fastest, 0.75) - quantile(fastest, 0.25)) / middle;
  Finding check{"variation", series.key};
  check.expected = "the same time in every round";
  check.seen = fmt::format("{}: the middle half of {} undisturbed rounds is {:.1f} % wide",
                           series.what, fastest.size(), 100 * width);
  check.band = fmt::format("at most {:.0f} %: an unstable clock moves more", 100 * widest);
  check.number = Finding::Number{
      "1", {width, {}, static_cast<int>(fastest.size())}, {0, "its own median"}, widest};
  if (width <= widest) return check;
  check.reason = fmt::format("times of the middle half are {:.0f} % apart", 100 * width);
  if (watched.disturbance.heavy()) {
    check.outcome = Finding::Outcome::skipped;
    check.reason = "it varies, and " + watched.disturbance.text();
    check.advice = Disturbance::advice;
  } else if (!watched.bench.on_gpu() && is_guest()) {
    check.outcome = Finding::Outcome::skipped;
    check.reason +=
        ", and this system is a hypervisor's guest, which does not see what others take";
    check.advice = "validate the host itself, or rule out other guests";
  } else {
    check.outcome = Finding::Outcome::failed;
    check.advice = "look for what else uses the device, and at its power and clock settings";
  }
  return check;
}

std::vector<Finding> judge_variation(const Watched& watched) {
  std::vector<Finding> checks;
  for (const Series& series : watched.series) checks.push_back(check_of_variation(watched, series));
  return checks;
}

}  // namespace

CheckGroup variation_group() {
  return {.name = "variation",
          .question = "does the same take the same time in every round?",
          .judge = judge_variation};
}

}  // namespace frugal::harness
