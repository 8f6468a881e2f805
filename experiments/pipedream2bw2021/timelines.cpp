#include <fmt/format.h>

#include <algorithm>

#include "engine/schedule/schedules.h"
#include "engine/schedule/timeline.h"
#include "experiments/artifacts.h"
#include "experiments/declaration.h"
#include "experiments/pipedream2bw2021/paper.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

constexpr double cut = 23;  ///< where all five figures end

/// A worker's passes, cut where the figure ends.
std::vector<DrawnPass> drawn(const std::vector<Span>& spans) {
  std::vector<DrawnPass> passes;
  for (const Span& span : spans)
    if (is_pass(span.action.kind) && span.begin < cut)
      passes.push_back({span.action.kind == ActionKind::forward, span.action.microbatch + 1,
                        span.begin, std::min(span.end, cut)});
  return passes;
}

/// The last warm-up forward is drawn as late as possible where a forward and a backward take turns,
/// and as early as possible otherwise.
Timeline simulated(const std::string& name) {
  const JsonObject figure = paper().artifact(name);
  const auto number = [&](const char* key) {
    return static_cast<int>(figure.require<int64_t>(key));
  };
  const auto kind = schedule_kind(figure.require<std::string>("schedule")).value();
  const ScheduleShape shape{.stages = number("stages"),
                            .microbatches = number("microbatches"),
                            .batches = number("batches")};
  return simulate(make_schedule(kind, shape), {}, kind.steady == SteadyState::there_and_back);
}

std::vector<Cell> passes_where_drawn(const std::string& name) {
  const Timeline timeline = simulated(name);
  const std::vector<std::vector<DrawnPass>> workers = paper().workers(name);
  std::vector<Cell> cells;
  for (size_t worker = 0; worker < timeline.stages.size(); ++worker) {
    const std::vector<DrawnPass>& theirs = workers.at(worker);
    const std::vector<DrawnPass> ours = drawn(timeline.stages[worker]);
    const auto agree = std::count_if(ours.begin(), ours.end(), [&](const DrawnPass& pass) {
      return std::find(theirs.begin(), theirs.end(), pass) != theirs.end();
    });
    Cell& cell = cells.emplace_back(
        formula_cell(paper(), name, fmt::format("worker {}", worker + 1),
                     "passes where the figure has them", "passes", static_cast<double>(agree)));
    cell.read = "derived";
    cell.paper = static_cast<double>(std::max(theirs.size(), ours.size()));
  }
  return cells;
}

std::vector<Claim> all_where_drawn(const Results& results) {
  double theirs = 0, ours = 0;
  for (const Cell& cell : results.formulas) {
    theirs += *cell.paper;
    ours += *cell.value;
  }
  Claim claim = claim_of(results.artifact.name + "/passes",
                         "every pass of every worker is where and when the figure has it", "passes",
                         theirs, {Source::formula, ""}, {Estimate{ours}});
  policy::judge_exact(claim, 0, "a drawn timeline is exact");
  return {claim};
}

/// The figure's own passes, as long as they are drawn.
Timeline as_drawn(const std::string& name) {
  Timeline timeline;
  timeline.title = "as the paper draws it";
  for (const std::vector<DrawnPass>& worker : paper().workers(name)) {
    std::vector<Span>& spans = timeline.stages.emplace_back();
    for (const DrawnPass& pass : worker)
      spans.push_back(
          {{pass.forward ? ActionKind::forward : ActionKind::backward, 0, pass.microbatch - 1, -1},
           pass.begin,
           pass.end});
  }
  return timeline;
}

std::vector<DrawnTimeline> both(const std::string& name) {
  Timeline ours = simulated(name);
  ours.title = fmt::format("as frugal's schedule {} has it, a forward taking 1 and a backward 2",
                           paper().artifact(name).require<std::string>("schedule"));
  return {{as_drawn(name), "paper"}, {std::move(ours), "formula"}};
}

Declaration timeline(const std::string& name) {
  return {.paper = paper(),
          .name = name,
          .formulas = [name] { return passes_where_drawn(name); },
          .claims = {all_where_drawn},
          .timelines = [name] { return both(name); }};
}

}  // namespace

/// Drawn timelines: where the schedule that the engine executes puts each pass, if a forward takes
/// one unit of time and a backward two, beside where the paper's figure has it.
std::vector<const Artifact*> timelines() {
  static const Family figures({"figure1a", "figure1b", "figure2", "figure3a", "figure3b"},
                              timeline);
  return figures.artifacts();
}

}  // namespace frugal::experiments::pipedream2bw2021
