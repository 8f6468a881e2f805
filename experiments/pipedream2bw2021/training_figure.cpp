#include "experiments/pipedream2bw2021/training_figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/on_gpus.h"

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
                        Estimate (*value)(const Record&)) {
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
      outcome.estimate = value(*found.record);
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

DeclaredCell cell_of(const Point& point, std::string row, const std::string& unit,
                     Estimate (*value)(const Record&)) {
  std::vector<std::string> cases;
  for (const Try& one : point.tries) cases.push_back(case_id(point, one));
  return {.row = std::move(row),
          .column = point.column,
          .unit = unit,
          .cases = std::move(cases),
          .number = Number::of_outcomes([point, value](const Number::Ended& ended) {
            return first_that_fits(point, ended, value);
          }),
          .paper_row = point.paper_row};
}

std::vector<DeclaredCell> cells_of(const std::vector<Point>& points, const std::string& unit,
                                   Steps steps, Estimate (*value)(const Record&),
                                   const Setting& setting) {
  std::vector<DeclaredCell> cells;
  for (const Point& point : points) cells.push_back(cell_of(point, point.row, unit, value));
  if (steps != Steps::times) return cells;
  for (const Point& point : points)
    if (has_step_parts(setting, point.tries.front().config))
      for (const StepPart& part : step_parts)
        cells.push_back(cell_of(point, fmt::format("{}, {}", point.row, part.name), "s", part.of));
  return cells;
}

/// Claims about the paper's machine alone.
Claims on_papers_machine(Claims claims) {
  return [claims = std::move(claims)](const Results& results) {
    Results there = results;
    std::erase_if(there.settings, [](const Results::InSetting& in) {
      return in.runs.setting().source == Source::measured;
    });
    return claims(there);
  };
}

/// The machine in words, of the try that fits.
void complete_point(Cell& cell, const DeclaredCell& declared, const Runs& runs) {
  if (runs.setting().source == Source::measured) beside_nothing(cell);
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

Estimate throughput(const Record& record) {
  const RunConfig& c = record.config;
  const auto sequences = static_cast<double>(c.micro_batch * c.batch_microbatches());
  Estimate rate = median_of(record, metric::step_time);
  rate.value = sequences / rate.value;
  if (auto& interval = rate.interval)
    interval = Interval{sequences / interval->high, sequences / interval->low};
  return rate;
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
  RunConfig config;
  config.model = setup.model;
  config.model.tied = false;
  config.pipeline_parallel = setup.depth;
  config.data_parallel = setup.width;
  config.schedule = schedule;
  config.recompute = Recompute::full;
  config.stored_masks = true;
  config.type = DType::bf16;
  config.micro_batch = micro_batch;
  config.microbatches = batch / (micro_batch * setup.width);
  config.narrow_reduction = true;
  return config;
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
                            std::vector<Point> points, Estimate (*value)(const Record&),
                            std::vector<Claims> claims) {
  for (Claims& some : claims) some = on_papers_machine(std::move(some));
  Cases cases = [points, steps](const Selection& selection) {
    std::vector<Case> all;
    if (selection.virtual_machine)
      for (const Point& point : points)
        all.push_back(chain(point, steps, selection.scale.value_or(1)));
    return all;
  };
  return {.paper = paper(),
          .name = name,
          .program = papers_program,
          .cases = also_on_gpus(std::move(cases), steps == Steps::times ? steps_on_gpus : 1),
          .cells =
              [points = std::move(points), unit, steps, value](const Setting& setting) {
                return cells_of(points, unit, steps, value, setting);
              },
          .complete = complete_point,
          .claims = std::move(claims),
          .expects_oom = true};
}

Claims oom_claims(const std::string& figure) {
  return claims_of_settings(
      [figure](const Results::InSetting& in) { return oom_claim(figure, in); }, true);
}

}  // namespace frugal::experiments::pipedream2bw2021
