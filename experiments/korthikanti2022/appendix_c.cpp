#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/schedule/peaks.h"
#include "engine/schedule/schedules.h"
#include "experiments/korthikanti2022/artifacts.h"
#include "experiments/korthikanti2022/iteration.h"
#include "experiments/korthikanti2022/step_artifact.h"
#include "harness/target.h"
#include "kernels/virtual/machine.h"

namespace frugal::korthikanti2022 {
namespace {

/// Of microbatches that are kept whole: none, and two numbers whose difference is what one takes.
/// The first one's place is partly what recomputing needed.
constexpr int64_t fewer = 2, more = 3;

/// Whole iterations: those of table 5, and those in which so many microbatches are kept whole.
/// These are what the first stage has room for; later stages have room for more, which they do not
/// use.
constexpr std::array<std::pair<Iteration, Iteration>, 2> pairs{
    {{{"175B", present}, {"175B", present, 1, 21}}, {{"530B", present}, {"530B", present, 1, 69}}}};

std::string case_id(std::string_view model, int64_t kept) {
  return fmt::format("{}/{}-kept", model, kept);
}

std::vector<Step> appendix_steps() {
  std::vector<Step> all;
  for (const char* name : {"175B", "530B"})
    for (const int64_t kept : {int64_t{0}, fewer, more}) {
      all.push_back({case_id(name, kept), step_config(model(name), present)});
      all.back().config.kept_microbatches = kept;
    }
  return all;
}

/// Of one stage. A microbatch counts once for each of the stage's chunks that it is in.
struct Kept {
  int64_t in_flight = 0;  ///< at most
  int64_t whole = 0;      ///< of them, so many fit
  double each = 0;        ///< bytes that keeping one whole takes more
  double peak = 0;        ///< bytes of the stage, with all that fit
};

std::vector<int64_t> in_flight(const RunConfig& run) {
  const Schedule schedule =
      make_schedule(run.schedule, {.stages = run.pipeline_parallel,
                                   .chunks = run.chunks,
                                   .microbatches = static_cast<int>(run.microbatches)});
  std::vector<int64_t> all;
  for (const Actions& actions : schedule.actions) all.push_back(peak_in_flight(actions));
  return all;
}

/// Stages of these three records: none kept whole, fewer, more.
std::vector<Kept> kept_whole(const std::vector<const Record*>& found) {
  const auto capacity = static_cast<double>(find_machine(papers_machine).memory_capacity);
  std::vector<Kept> stages;
  for (const int64_t n : in_flight(found[0]->config)) {
    const auto peak = [&](size_t i) {
      return static_cast<double>(stage_of(*found[i], stages.size()).peak);
    };
    Kept kept{.in_flight = n, .each = peak(2) - peak(1)};
    if (kept.each > 0) {
      const double fit = std::floor((capacity - peak(2)) / kept.each) + static_cast<double>(more);
      kept.whole = std::clamp<int64_t>(static_cast<int64_t>(fit), 0, n);
    } else {
      kept.whole = n;  // fewer than `more` are ever in flight
    }
    kept.peak = peak(2) + static_cast<double>(kept.whole - more) * kept.each;
    stages.push_back(kept);
  }
  return stages;
}

/// Appendix C: how many microbatches a stage can keep whole, beside those whose attention is
/// recomputed, in what the rest leaves of 80 GB; and what that does to the time of an iteration.
class AppendixC final : public StepArtifact {
 public:
  AppendixC() : StepArtifact("appendixC", appendix_steps()) {}

  std::vector<Case> cases(const Selection& selection) const override {
    std::vector<Case> cases = StepArtifact::cases(selection);
    if (!selection.virtual_machine || selection.scale.value_or(1) != 1) return cases;
    for (const auto& [none, kept] : pairs)
      for (const Iteration& iteration : {none, kept}) cases.push_back(case_of(iteration));
    return cases;
  }

  std::vector<Claim> claims(const Records& records) const override {
    std::vector<Claim> claims;
    for (const Cell& c : cells(records)) {
      if (!c.paper) continue;
      const bool gain = c.column == "gain";
      claims.push_back(claim_about(c, fmt::format("appendixC/{}/{}", c.row, c.column),
                                   fmt::format("{}: {} of {} %", c.row, c.column, c.paper.value()),
                                   gain ? 0.5 : 1.5,
                                   "half a point of a gain, 1.5 of a utilization: a model of the "
                                   "machine, fitted to table 4 alone"));
    }
    return claims;
  }

 protected:
  std::vector<Cell> cells_in(const Setting& setting, const Records& records) const override {
    std::vector<Cell> cells;
    if (setting.scale != 1) return cells;  // a smaller model leaves another part of 80 GB
    for (const char* name : {"175B", "530B"}) {
      const auto add = [&](const char* column, const char* unit, const auto& number) {
        cells.push_back(observe(
            name, column, unit, setting, records,
            [&](const auto& found) { return static_cast<double>(number(kept_whole(found))); },
            {case_id(name, 0), case_id(name, fewer), case_id(name, more)}));
      };
      add("in flight, first stage", "1", [](const auto& s) { return s.front().in_flight; });
      add("kept whole, first stage", "1", [](const auto& s) { return s.front().whole; });
      add("memory, first stage", "GiB", [](const auto& s) { return s.front().peak / gib; });
      add("memory of one more, first stage", "GiB",
          [](const auto& s) { return s.front().each / gib; });
      add("stages that keep all whole", "1", [](const auto& s) {
        return std::count_if(s.begin(), s.end(),
                             [](const Kept& k) { return k.whole == k.in_flight; });
      });
      add("kept whole, mean of the stages", "%", [](const auto& s) {
        double share = 0;
        for (const Kept& k : s)
          share += static_cast<double>(k.whole) / static_cast<double>(k.in_flight);
        return 100 * share / static_cast<double>(s.size());
      });
    }
    for (const auto& [none, kept] : pairs) {
      const std::vector<std::string> ids{korthikanti2022::case_id(none),
                                         korthikanti2022::case_id(kept)};
      cells.push_back(observe(
          kept.model, "MFU", "%", setting, records,
          [](const auto& found) { return mfu(*found[1]); }, ids));
      cells.push_back(observe(
          kept.model, "gain", "%", setting, records,
          [](const auto& found) { return mfu(*found[1]) - mfu(*found[0]); }, ids));
    }
    return cells;
  }
};

}  // namespace

const Artifact& appendix_c() {
  static const AppendixC artifact;
  return artifact;
}

}  // namespace frugal::korthikanti2022
