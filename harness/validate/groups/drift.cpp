// Whether the device becomes slower while it works: heat, a power limit, a falling clock.
#include <fmt/format.h>

#include "harness/peaks/peak.h"
#include "harness/validate/group.h"
#include "harness/validate/trend.h"

namespace frugal::harness {
namespace {

constexpr const char* clock_key = "clock";
/// Parts of the watch of which each has one value: enough for a trend, and long enough for one
/// moment of each to be undisturbed.
constexpr double drift_blocks = 16;

/// A product that only the clock decides: on the processor it is one thread's and stays in its
/// core's cache.
std::vector<Probe> drift_probes(Workbench& bench) {
  const int64_t n = bench.on_gpu() ? 8192 : 192;
  const auto gemm =
      std::make_shared<TimedGemm>(bench.core(), bench.on_gpu() ? DType::bf16 : DType::f32,
                                  GemmShape{n, n, n}, shortest_sample(bench.target()));
  return {{.key = clock_key,
           .what = fmt::format("product of {}, again and again", n),
           .unit = "FLOP/s",
           .work = gemm->flops(),
           .burst = bench.on_gpu() ? 1 : 24,
           .seconds = [gemm] { return gemm->run(); }}};
}

std::vector<double> times_of(const std::vector<Burst>& bursts) {
  std::vector<double> all;
  for (const Burst& burst : bursts) all.push_back(burst.at);
  return all;
}

std::vector<Finding> judge_drift(const Watched& watched) {
  const Series& series = *watched.find(clock_key);
  Finding check{"drift", series.key};
  const std::vector<Burst> alone = series.undisturbed_bursts();
  const std::optional<Trend> found =
      trend_of(times_of(alone), fastest_of(alone), watched.seconds / drift_blocks);
  if (!found)
    return {skipped_finding(
        check.group, check.name,
        "too few moments were left alone by others to see a trend; " + watched.disturbance.text(),
        Disturbance::advice)};
  const Trend& trend = *found;
  const double least = least_drift(trend.minutes);
  const std::string source = "itself, at the beginning of the watch";
  check.expected = "as long as at the beginning";
  check.seen = fmt::format(
      "{}: {:+.1f} % [{:+.1f}, {:+.1f}] in {:.0f} s; the shortest of the last quarter {:+.1f} %",
      series.what, 100 * trend.change, 100 * trend.interval.low, 100 * trend.interval.high,
      60 * trend.minutes, 100 * trend.envelope);
  check.band = fmt::format(
      "at most {:.1f} % longer (half of what 10 % a minute would be, from 2.5 to 5 %), by the line "
      "and by the shortest alike; what comes and goes is no drift",
      100 * least);
  check.number = Finding::Number{
      "1", {trend.change, trend.interval, static_cast<int>(trend.blocks)}, {0, source}, least};
  if (drifts(trend)) {
    check.outcome = Finding::Outcome::failed;
    check.reason = fmt::format("it became {:.1f} % slower in {:.0f} s", 100 * trend.change,
                               60 * trend.minutes);
    check.advice = "look at temperature, power limit and cooling, and validate again for longer";
  }
  return {check};
}

}  // namespace

CheckGroup drift_group() {
  return {.name = "drift",
          .question = "does the device keep its speed while it works?",
          .probes = drift_probes,
          .judge = judge_drift};
}

}  // namespace frugal::harness
