#include "experiments/pipedream2bw2021/training_figure.h"

#include <fmt/format.h>

#include "kernels/support/error.h"

namespace frugal::pipedream2bw2021 {
namespace {

constexpr const char* machine = "virtual:v100-p3-16xlarge";

/// Section 5: Adam, learning rate 1e-4. Gradients are not clipped, which would make every stage
/// wait for all others.
OptimizerOptions optimizer() {
  return {.kind = OptimizerKind::adam, .learning_rate = 1e-4, .clip = 0};
}

std::string case_id(const Point& point, const Try& one) {
  return fmt::format("{}/{}/{}", point.row, point.column, one.name);
}

}  // namespace

double throughput(const Record& record) {
  const RunConfig& c = record.config;
  return static_cast<double>(c.micro_batch * c.batch_microbatches()) /
         median(record.samples(metric::step_time));
}

Claim ratio_claim(std::string id, std::string statement, double paper, const Setting& setting,
                  const std::optional<double>& of, const std::optional<double>& over) {
  Claim claim;
  claim.id = std::move(id);
  claim.statement = std::move(statement);
  claim.unit = std::string("x");  // GCC 12 warns about an assignment of one character
  claim.paper = paper;
  claim.tolerance = 0.15 * paper;
  claim.justification =
      "15 %: a model of the machine, of which one number was fitted, to figure 12";
  Outcome outcome;
  if (of && over) outcome.estimate = Estimate{*of / *over};
  set(claim, setting, outcome);
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

std::string name_of(const RunConfig& config) {
  return fmt::format("b{} m{}", config.micro_batch, config.microbatches);
}

/// The first try, and behind each what is tried where it does not fit.
Case TrainingFigure::chain(const Point& point, const Setting& setting) const {
  std::vector<Case> rest;
  for (auto one = point.tries.rbegin(); one != point.tries.rend(); ++one) {
    Case c{.id = case_id(point, *one),
           .what = Case::What::training,
           .config = one->config,
           .on = setting.on,
           .scale = setting.scale,
           .steps = one->config.schedule.flushes ? 1 : steps_without_flush_,
           .optimizer = optimizer(),
           .smaller = std::move(rest)};
    try {
      c.config.model = c.config.model.scaled(setting.scale);
    } catch (const InputError& error) {
      c.skip = fmt::format("{} at scale {}: {}", c.config.model.name, scale_name(setting.scale),
                           error.what());
    }
    rest = {std::move(c)};
  }
  return std::move(rest.front());
}

std::vector<Case> TrainingFigure::cases(const Selection& selection) const {
  std::vector<Case> cases;
  if (!selection.virtual_machine) return cases;
  const Setting setting{Source::simulated, machine, selection.scale.value_or(1)};
  for (const Point& point : points()) cases.push_back(chain(point, setting));
  return cases;
}

Cell TrainingFigure::cell_of(const Point& point, const Setting& setting,
                             const Records& records) const {
  Outcome outcome;
  std::string why = point.reason, machine_in_words, beyond;  // the last that did not fit
  for (const Try& one : point.tries) {
    const Found found = find_case(records, id(), case_id(point, one), setting);
    outcome.status = found.status;
    outcome.reason = found.reason;
    if (found.record != nullptr) {
      outcome.estimate = Estimate{value(*found.record)};
      machine_in_words = found.record->device;
      if (!beyond.empty())
        why = fmt::format("{}, {}: {} runs out of memory, this is {}", point.row, point.column,
                          beyond, one.name);
    }
    if (outcome.reason.empty()) outcome.reason = why;
    if (found.status != Status::oom) break;
    beyond = one.name;
  }
  const std::string& row = point.paper_row.empty() ? point.row : point.paper_row;
  Cell cell = make_cell(paper(), name_, row, point.column, unit_, setting, outcome);
  cell.row = point.row;
  cell.note = machine_in_words;
  if (setting.scale != 1) {  // seconds and bytes of another size
    cell.paper.reset();
    cell.paper_oom = false;
    cell.read.clear();
  }
  return cell;
}

std::vector<Cell> TrainingFigure::cells(const Records& records) const {
  std::vector<Cell> cells;
  for (const Setting& setting : records.settings(id()))
    for (const Point& point : points()) cells.push_back(cell_of(point, setting, records));
  return cells;
}

std::vector<Claim> TrainingFigure::oom_claims(const Records& records) const {
  std::vector<Claim> claims;
  for (const Setting& setting : records.settings(id())) {
    if (setting.scale != 1) continue;
    double agree = 0, all = 0;
    std::string differ, missing;
    for (const Point& point : points()) {
      const Cell cell = cell_of(point, setting, records);
      if (cell.status != Status::ok && cell.status != Status::oom)
        missing = fmt::format("{}, {}: {}", cell.row, cell.column, name_of(cell.status));
      const bool same = (cell.status == Status::oom) == cell.paper_oom;
      agree += same ? 1 : 0;
      ++all;
      if (!same)
        differ += fmt::format("{}{}, {}", differ.empty() ? "not " : "; ", cell.row, cell.column);
    }
    Claim claim;
    claim.id = name_ + "/oom";
    claim.statement = "memory runs out where the paper's does, and nowhere else";
    claim.unit = "cells";
    claim.paper = all;
    if (missing.empty())
      set(claim, setting, {Estimate{agree}, Status::ok, differ});
    else
      set(claim, setting, {std::nullopt, Status::ok, missing});
    claim.justification = "a cell runs out of memory or does not";
    claims.push_back(std::move(claim));
  }
  return claims;
}

}  // namespace frugal::pipedream2bw2021
