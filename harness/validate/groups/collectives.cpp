// What the links between ranks carry.
#include <fmt/format.h>

#include "harness/peaks/collective_rates.h"
#include "harness/peaks/peak.h"
#include "harness/validate/group.h"

namespace frugal::harness {
namespace {

std::vector<Probe> collective_probes(Workbench& bench) {
  if (!bench.why_no_ranks().empty()) return {};
  const int64_t bytes = int64_t{1} << (bench.on_gpu() ? 28 : 21);
  const auto timed = std::make_shared<TimedCollectives>(bench.target(), bench.ranks(), bytes);
  std::vector<Probe> probes;
  for (size_t i = 0; i < TimedCollectives::names().size(); ++i) {
    const auto repeated = std::make_shared<Repeated>(
        [timed, i, bytes](int n) { return timed->seconds(i, timed->bytes(bytes), n); },
        shortest_sample(bench.target()));
    probes.push_back({.key = fmt::format("collective/{}", TimedCollectives::names()[i]),
                      .what = fmt::format("{} of {} MiB by {} ranks, bus",
                                          TimedCollectives::names()[i], bytes >> 20, bench.ranks()),
                      .unit = "B/s",
                      .work = timed->factor(i) * static_cast<double>(timed->bytes(bytes)),
                      .burst = bench.on_gpu() ? 1 : 8,
                      .seconds = [repeated] { return repeated->run(); }});
  }
  return probes;
}

std::vector<Finding> judge_collectives(const Watched& watched) {
  if (const std::string why = watched.bench.why_no_ranks(); !why.empty())
    return {skipped_finding("collectives", "collective", why)};
  std::vector<Finding> checks;
  for (const Series* series : watched.all("collective/"))
    for (Finding& check : against_expectations("collectives", watched, *series))
      checks.push_back(std::move(check));
  return checks;
}

}  // namespace

CheckGroup collectives_group() {
  return {.name = "collectives",
          .question = "do ranks exchange as fast as their links should carry?",
          .probes = collective_probes,
          .judge = judge_collectives};
}

}  // namespace frugal::harness
