#include <fmt/format.h>

#include <algorithm>

#include "engine/schedule/schedules.h"
#include "engine/schedule/timeline.h"
#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/paper.h"

namespace frugal::pipedream2bw2021 {
namespace {

using nlohmann::json;

/// A worker's passes as paper.json has them: [F or B, microbatch counted from 1, begin, end], cut
/// where the figure ends.
json drawn(const std::vector<Span>& spans, double cut) {
  json passes = json::array();
  for (const Span& span : spans)
    if (is_pass(span.action.kind) && span.begin < cut)
      passes.push_back({span.action.kind == ActionKind::forward ? "F" : "B",
                        span.action.microbatch + 1, span.begin, std::min(span.end, cut)});
  return passes;
}

/// A drawn timeline: where the schedule that the engine executes puts each pass, if a forward takes
/// one unit of time and a backward two, beside where the paper's figure has it.
class TimelineFigure final : public Artifact {
 public:
  explicit TimelineFigure(std::string name) : name_(std::move(name)) {}

  std::string id() const override { return std::string(paper_id) + "/" + name_; }
  std::string title() const override { return paper().caption(name_); }
  std::vector<Case> cases(const Selection&) const override { return {}; }

  std::vector<Cell> cells(const Records&) const override {
    const Timeline timeline = simulated();
    std::vector<Cell> cells;
    for (size_t worker = 0; worker < timeline.stages.size(); ++worker) {
      const json& theirs = figure().at("workers").at(worker);
      const json ours = drawn(timeline.stages[worker], cut);
      Cell cell;
      cell.artifact = id();
      cell.row = fmt::format("worker {}", worker + 1);
      cell.column = "passes where the figure has them";
      cell.unit = "passes";
      cell.read = "derived";
      cell.paper = static_cast<double>(std::max(theirs.size(), ours.size()));
      cell.value = static_cast<double>(std::count_if(ours.begin(), ours.end(), [&](const json& p) {
        return std::find(theirs.begin(), theirs.end(), p) != theirs.end();
      }));
      cell.source = Source::formula;
      cells.push_back(std::move(cell));
    }
    return cells;
  }

  std::vector<Claim> claims(const Records& records) const override {
    Claim claim;
    claim.id = name_ + "/passes";
    claim.statement = "every pass of every worker is where and when the figure has it";
    claim.unit = "passes";
    claim.paper = claim.value = 0;
    for (const Cell& cell : cells(records)) {
      *claim.paper += *cell.paper;
      *claim.value += *cell.value;
    }
    claim.source = Source::formula;
    claim.justification = "a drawn timeline is exact";
    return {claim};
  }

 private:
  static constexpr double cut = 23;  ///< where all five figures end

  const json& figure() const { return paper().document().at("artifacts").at(name_); }

  /// The last warm-up forward is drawn as late as possible where a forward and a backward take
  /// turns, and as early as possible otherwise.
  Timeline simulated() const {
    const auto kind = schedule_kind(figure().at("schedule").get<std::string>()).value();
    const ScheduleShape shape{.stages = figure().at("stages"),
                              .microbatches = figure().at("microbatches"),
                              .batches = figure().at("batches")};
    return simulate(make_schedule(kind, shape), {}, kind.steady == SteadyState::there_and_back);
  }

  std::string name_;
};

}  // namespace

std::vector<const Artifact*> timelines() {
  static const TimelineFigure figures[] = {TimelineFigure("figure1a"), TimelineFigure("figure1b"),
                                           TimelineFigure("figure2"), TimelineFigure("figure3a"),
                                           TimelineFigure("figure3b")};
  std::vector<const Artifact*> all;
  for (const TimelineFigure& figure : figures) all.push_back(&figure);
  return all;
}

}  // namespace frugal::pipedream2bw2021
