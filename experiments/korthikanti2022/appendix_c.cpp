#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/schedule/peaks.h"
#include "engine/schedule/schedules.h"
#include "experiments/korthikanti2022/steps.h"
#include "kernels/virtual/machine.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

/// Of microbatches that are kept whole: none, and two numbers whose difference is what one takes.
/// The first one's place is partly what recomputing needed.
constexpr int64_t fewer = 2, more = 3;

/// Whole iterations: those of table 5, and those in which so many microbatches are kept whole.
/// These are what the first stage has room for; later stages have room for more, which they do not
/// use.
constexpr std::array<std::pair<Iteration, Iteration>, 2> pairs{
    {{{"175B", present}, {"175B", present, 1, 21}}, {{"530B", present}, {"530B", present, 1, 69}}}};

std::string kept_id(std::string_view model, int64_t kept) {
  return fmt::format("{}/{}-kept", model, kept);
}

std::vector<Case> appendix_cases(const Selection& selection) {
  std::vector<Step> steps;
  std::vector<Iteration> iterations;
  for (const auto& [none, kept] : pairs) {
    for (const int64_t n : {int64_t{0}, fewer, more}) {
      steps.push_back({kept_id(none.model, n), step_config(model(none.model), present)});
      steps.back().config.kept_microbatches = n;
    }
    iterations.insert(iterations.end(), {none, kept});
  }
  std::vector<Case> cases = step_memory_cases(papers_machine, std::move(steps))(selection);
  for (Case& c : iteration_cases(std::move(iterations))(selection)) cases.push_back(std::move(c));
  return cases;
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

/// Stages of these three records: none kept whole, `fewer`, `more`.
std::vector<Kept> kept_whole(const Record& none, const Record& few, const Record& many) {
  const auto capacity = static_cast<double>(find_machine(papers_machine).memory_capacity);
  std::vector<Kept> stages;
  for (const int64_t n : in_flight(none.config)) {
    const auto peak_of = [&](const Record& record) {
      return static_cast<double>(stage_of(record, stages.size()).peak);
    };
    const double peak = peak_of(many);
    Kept kept{.in_flight = n, .each = peak - peak_of(few)};
    if (kept.each > 0) {
      const double fit = std::floor((capacity - peak) / kept.each) + static_cast<double>(more);
      kept.whole = std::clamp<int64_t>(static_cast<int64_t>(fit), 0, n);
    } else {
      kept.whole = n;  // fewer than `more` are ever in flight
    }
    kept.peak = peak + static_cast<double>(kept.whole - more) * kept.each;
    stages.push_back(kept);
  }
  return stages;
}

double stages_with_all(const std::vector<Kept>& stages) {
  return static_cast<double>(std::count_if(stages.begin(), stages.end(),
                                           [](const Kept& k) { return k.whole == k.in_flight; }));
}

double mean_percent(const std::vector<Kept>& stages) {
  double share = 0;
  for (const Kept& k : stages)
    share += static_cast<double>(k.whole) / static_cast<double>(k.in_flight);
  return 100 * share / static_cast<double>(stages.size());
}

std::vector<DeclaredCell> appendix_c_cells(const Setting& setting) {
  using Stages = std::vector<Kept>;
  struct Column {
    const char *name, *unit;
    double (*number)(const Stages&);
  };
  constexpr std::array columns{
      Column{"in flight, first stage", "1",
             [](const Stages& s) { return static_cast<double>(s.front().in_flight); }},
      Column{"kept whole, first stage", "1",
             [](const Stages& s) { return static_cast<double>(s.front().whole); }},
      Column{"memory, first stage", "GiB", [](const Stages& s) { return s.front().peak / gib; }},
      Column{"memory of one more, first stage", "GiB",
             [](const Stages& s) { return s.front().each / gib; }},
      Column{"stages that keep all whole", "1", stages_with_all},
      Column{"kept whole, mean of the stages", "%", mean_percent}};
  std::vector<DeclaredCell> cells;
  if (setting.scale != 1) return cells;  // a smaller model leaves another part of 80 GB
  for (const auto& [none, kept] : pairs)
    for (const Column& column : columns)
      cells.push_back(
          {std::string(none.model),
           column.name,
           column.unit,
           {kept_id(none.model, 0), kept_id(none.model, fewer), kept_id(none.model, more)},
           [number = column.number](const Record& a, const Record& b, const Record& c) {
             return number(kept_whole(a, b, c));
           }});
  for (const auto& [none, kept] : pairs) {
    const std::vector<std::string> ids{case_id(none), case_id(kept)};
    cells.push_back({std::string(none.model), "MFU", "%", ids,
                     [](const Record&, const Record& whole) { return mfu(whole); }});
    cells.push_back(
        {std::string(none.model), "gain", "%", ids,
         [](const Record& base, const Record& whole) { return mfu(whole) - mfu(base); }});
  }
  return cells;
}

}  // namespace

/// Appendix C: how many microbatches a stage can keep whole, beside those whose attention is
/// recomputed, in what the rest leaves of 80 GB; and what that does to the time of an iteration.
const Artifact& appendix_c() {
  static const DeclaredArtifact artifact(
      {.paper = paper(),
       .name = "appendixC",
       .program = papers_time,
       .cases = appendix_cases,
       .cells = appendix_c_cells,
       .claims = {claims_of_cells(
           {{.id = "appendixC/{row}/{column}", .statement = "{row}: {column} of {paper} %"}})},
       .narrower = utilization_tolerance});
  return artifact;
}

}  // namespace frugal::experiments::korthikanti2022
