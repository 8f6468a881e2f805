#include <fmt/format.h>

#include <algorithm>

#include "engine/plan/search.h"
#include "engine/program/find_program.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "harness/settings/models.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

constexpr const char* planner_artifact = "section5.2";
constexpr const char* depth_column = "depth";

/// What the planner predicts of a model, the best first, with what changes times in the paper's
/// program.
std::vector<Candidate> planned(const ModelConfig& model, int gpus, int64_t batch) {
  PlanRequest request;
  request.run = pipeline_config({model, 1, 1}, ScheduleKind::two_buffered, 1, batch);
  request.run.program = find_program(std::string(papers_program) + ":time:messages");
  request.machine = find_machine(papers_machine);
  request.memory = request.machine.memory_capacity;
  request.devices = gpus;
  request.batch = batch;
  request.schedules = {ScheduleKind::two_buffered};
  request.recompute = {{Recompute::full}};
  return search(request).fitting;
}

/// The planner's microbatch at each depth, and smaller ones where it does not fit after all.
std::vector<Point> depths_of(const std::string& row, const ModelConfig& model, int gpus,
                             int64_t batch) {
  std::vector<Point> points;
  for (const Candidate& candidate : planned(model, gpus, batch)) {
    const int depth = candidate.run.pipeline_parallel;
    Point point{row, fmt::format("{} {}", depth_column, depth), {}};
    const bool known = std::ranges::any_of(
        points, [&](const Point& other) { return other.column == point.column; });
    if (known || depth == 1) continue;
    for (int64_t b = candidate.run.micro_batch; b >= 1; b /= 2)
      point.tries.push_back(try_of(
          pipeline_config({model, gpus / depth, depth}, ScheduleKind::two_buffered, b, batch)));
    points.push_back(std::move(point));
  }
  std::ranges::sort(points, {}, [](const Point& point) { return number_in(point.column); });
  return points;
}

/// A depth's cases: as many as were tried.
struct Depth {
  int64_t stages;
  size_t tries;
};

/// The depth whose first try that fits is the fastest.
Outcome fastest(const std::vector<Depth>& depths, const Number::Ended& ended) {
  Outcome best{std::nullopt, Status::oom, "nothing fits"};
  double most = 0;
  auto begin = ended.begin();
  for (const Depth& depth : depths) {
    const auto end = begin + static_cast<std::ptrdiff_t>(depth.tries);
    const auto first =
        std::find_if(begin, end, [](const Found& found) { return found.status != Status::oom; });
    begin = end;
    if (first == end) continue;
    if (first->record == nullptr) return {std::nullopt, first->status, first->reason};
    const double rate = throughput(*first->record).value;
    if (rate <= most) continue;
    most = rate;
    best = {Estimate{static_cast<double>(depth.stages)}, Status::ok, ""};
  }
  return best;
}

/// What follows from the cells of a row, one for each depth.
DeclaredCell choice_of(const std::string& row, const std::vector<DeclaredCell>& all) {
  std::vector<std::string> cases;
  std::vector<Depth> depths;
  for (const DeclaredCell& cell : all) {
    if (cell.row != row) continue;
    depths.push_back({number_in(cell.column), cell.cases.size()});
    cases.insert(cases.end(), cell.cases.begin(), cell.cases.end());
  }
  return {.row = row,
          .column = depth_column,
          .unit = "stages",
          .cases = std::move(cases),
          .number = Number::of_outcomes(
              [depths](const Number::Ended& ended) { return fastest(depths, ended); })};
}

Declaration depths(std::vector<Point> points) {
  return training_figure(
      planner_artifact, "seqs/s", Steps::times, std::move(points), throughput,
      {claims_of_cells({{.id = "depths/{row}", .statement = "{row}: {paper} stages are chosen"}})});
}

/// With what the planner predicts, which takes a while.
const Declaration& planned_depths() {
  static const Declaration figure = [] {
    const JsonObject setup = paper().artifact(planner_artifact);
    const auto gpus = static_cast<int>(setup.require<int64_t>("gpus"));
    std::vector<Point> points;
    for (const PaperCell& cell : cells_of(planner_artifact))
      for (Point& point :
           depths_of(cell.row, find_model(cell.row), gpus, setup.require<int64_t>("batch")))
        points.push_back(std::move(point));
    return depths(std::move(points));
  }();
  return figure;
}

/// Nothing is predicted until it is asked for.
Declaration choices() {
  Declaration figure = depths({});
  figure.cases = [](const Selection& selection) { return planned_depths().cases(selection); };
  figure.cells = [](const Setting& setting) {
    std::vector<DeclaredCell> all = planned_depths().cells(setting);
    for (const PaperCell& cell : cells_of(planner_artifact))
      all.push_back(choice_of(cell.row, all));
    return all;
  };
  return figure;
}

}  // namespace

/// Section 5.2: which depth is chosen for a model on 64 GPUs. The planner predicts the best
/// microbatch of each depth; these are executed, and the fastest is chosen.
const Artifact& planner() {
  static const DeclaredArtifact artifact(choices());
  return artifact;
}

}  // namespace frugal::experiments::pipedream2bw2021
