#include "experiments/pipedream2bw2021/training_figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/cases.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

/// Section 5: Adam, learning rate 1e-4. Gradients are not clipped, which would make every stage
/// wait for all others.
OptimizerOptions optimizer() {
  return {.kind = OptimizerKind::adam, .learning_rate = 1e-4, .clip = 0};
}

std::string case_id(const Point& point, const Try& one) {
  return fmt::format("{}/{}/{}", point.row, point.column, one.name);
}

/// The first try, and behind each what is tried where it does not fit.
Case chain(const Point& point, Steps steps, int64_t scale) {
  std::vector<Case> rest;
  for (auto one = point.tries.rbegin(); one != point.tries.rend(); ++one) {
    Case c{.id = case_id(point, *one),
           .config = one->config,
           .workload = Training{.train = {.optimizer = optimizer(),
                                          .steps = one->config.schedule.flushes
                                                       ? 1
                                                       : static_cast<int64_t>(steps)}},
           .on = std::string("virtual:") + papers_machine,
           .smaller = std::move(rest)};
    scale_down(c, scale, c.config.model.name);
    rest = {std::move(c)};
  }
  return std::move(rest.front());
}

/// Of the first try that fits; the reason says which did not.
Outcome first_that_fits(const Point& point, const Number::Ended& ended,
                        double (*value)(const Record&)) {
  Outcome outcome;
  std::string why = point.reason, beyond;  // the last that did not fit
  // The first are left out where a program could have none of them.
  const auto was_tried = [](const Found& found) { return found.status != Status::skipped; };
  const auto first = std::ranges::find_if(ended, was_tried);
  const auto begin = first == ended.end() ? 0 : static_cast<size_t>(first - ended.begin());
  for (size_t i = begin; i < ended.size(); ++i) {
    const Found& found = ended[i];
    outcome.status = found.status;
    outcome.reason = found.reason;
    if (found.record != nullptr) {
      outcome.estimate = Estimate{value(*found.record)};
      if (!beyond.empty())
        why = fmt::format("{}, {}: {} runs out of memory, this is {}", point.row, point.column,
                          beyond, point.tries[i].name);
    }
    if (outcome.reason.empty()) outcome.reason = why;
    if (found.status != Status::oom) break;
    beyond = point.tries[i].name;
  }
  return outcome;
}

DeclaredCell cell_of(const Point& point, const std::string& unit, double (*value)(const Record&)) {
  std::vector<std::string> cases;
  for (const Try& one : point.tries) cases.push_back(case_id(point, one));
  return {.row = point.row,
          .column = point.column,
          .unit = unit,
          .cases = std::move(cases),
          .number = Number::of_outcomes([point, value](const Number::Ended& ended) {
            return first_that_fits(point, ended, value);
          }),
          .paper_row = point.paper_row};
}

/// The machine in words, of the try that fits.
void complete_point(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  for (const std::string& id : declared.cases) {
    const Found found = runs.find(id);
    if (found.record != nullptr) cell.note = found.record->device;
    if (found.status != Status::oom) return;
  }
}

std::vector<Claim> oom_claim(const std::string& figure, const Results::InSetting& in) {
  double agree = 0, papers_fit = 0;
  std::string differ, missing;
  for (const Cell& cell : in.cells) {
    papers_fit += cell.paper_oom ? 0 : 1;
    if (cell.status != Status::ok && cell.status != Status::oom)
      missing = fmt::format("{}, {}: {}", cell.row, cell.column, name_of(cell.status));
    const bool same = (cell.status == Status::oom) == cell.paper_oom;
    agree += same ? 1 : 0;
    if (!same)
      differ += fmt::format("{}{}, {}", differ.empty() ? "not " : "; ", cell.row, cell.column);
  }
  Claim claim =
      claim_of(figure + "/oom", "memory runs out where the paper's does, and nowhere else", "cells",
               static_cast<double>(in.cells.size()), in.runs.setting(),
               missing.empty() ? Outcome{Estimate{agree}, Status::ok, differ, cases_of(in.cells)}
                               : Outcome{std::nullopt, Status::ok, missing});
  // Of a technique that always fits so many are right.
  policy::judge_exact(claim, papers_fit, "a cell runs out of memory or does not");
  return {claim};
}

}  // namespace

double throughput(const Record& record) {
  const RunConfig& c = record.config;
  return static_cast<double>(c.micro_batch * c.batch_microbatches()) /
         median(record.samples(metric::step_time));
}

Claim ratio_claim(std::string id, std::string statement, double paper, const Setting& setting,
                  const Cell* of, const Cell* over) {
  Outcome outcome;
  if (of != nullptr && over != nullptr) {
    if (of->value && over->value) outcome.estimate = Estimate{*of->value / *over->value};
    outcome.cases = cases_of({*of, *over});
  }
  Claim claim = claim_of(std::move(id), std::move(statement), "x", paper, setting, outcome);
  policy::judge(claim,
                {.made = policy::Made::compared, .value = paper, .unit = "x", .no_effect = {1}});
  return claim;
}

RunConfig pipeline_config(const Setup& setup, ScheduleKind schedule, int64_t micro_batch,
                          int64_t batch) {
  // Each stage has a table of its own: the paper's program does not sum the two tables' gradients
  // with 2BW, and the bars say that it did not with a flush either.
  ModelConfig model = setup.model;
  model.tied = false;
  return {.model = model,
          .pipeline_parallel = setup.depth,
          .data_parallel = setup.width,
          .schedule = schedule,
          .recompute = Recompute::full,
          .stored_masks = true,
          .type = DType::bf16,
          .micro_batch = micro_batch,
          .microbatches = batch / (micro_batch * setup.width),
          .narrow_reduction = true};
}

Try try_of(const RunConfig& config) {
  return {fmt::format("b{} m{}", config.micro_batch, config.microbatches), config};
}

std::vector<Point> points_of(const std::string& artifact, RunConfig (*config)(const PaperCell&)) {
  std::vector<Point> points;
  for (const PaperCell& cell : cells_of(artifact))
    points.push_back({cell.row, cell.column, {try_of(config(cell))}});
  return points;
}

Declaration training_figure(const std::string& name, const std::string& unit, Steps steps,
                            std::vector<Point> points, double (*value)(const Record&),
                            std::vector<Claims> claims) {
  std::vector<DeclaredCell> cells;
  for (const Point& point : points) cells.push_back(cell_of(point, unit, value));
  return {.paper = paper(),
          .name = name,
          .program = papers_program,
          .cases =
              [points = std::move(points), steps](const Selection& selection) {
                std::vector<Case> cases;
                if (selection.virtual_machine)
                  for (const Point& point : points)
                    cases.push_back(chain(point, steps, selection.scale.value_or(1)));
                return cases;
              },
          .cells = [cells = std::move(cells)](const Setting&) { return cells; },
          .complete = complete_point,
          .claims = std::move(claims),
          .expects_oom = true};
}

Claims oom_claims(const std::string& figure) {
  return claims_of_settings(
      [figure](const Results::InSetting& in) { return oom_claim(figure, in); }, true);
}

}  // namespace frugal::experiments::pipedream2bw2021
