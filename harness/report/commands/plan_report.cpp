#include "harness/report/commands/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/measure/flops.h"
#include "harness/report/measurement.h"
#include "harness/report/table.h"
#include "harness/settings/config_json.h"
#include "harness/settings/layer_counts.h"

namespace frugal::harness {
namespace {

constexpr double gibibyte = 1024.0 * 1024 * 1024;

std::string gib(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / gibibyte);
}

/// "12 %"; what rounds to nothing has no sign.
std::string percent(double share) { return fmt::format("{:.0f} %", std::round(100 * share) + 0.0); }

/// "selective norm+mlp of 5 layers"; the paper's own set has no names.
std::string recomputed(const RunConfig& run) {
  std::string text(name_of(run.recompute));
  if (run.recompute == Recompute::selective && run.recompute_modules != RunConfig::cores)
    text += ' ' + name_of(run.recompute_modules);
  if (run.recompute_layers > 0) text += fmt::format(" of {} layers", run.recompute_layers);
  return text;
}

std::string offloaded(const RunConfig& run) {
  return run.offload ? name_of(run.offload_modules) : "none";
}

/// "interleaved, v 2"
std::string order_of(const RunConfig& run) {
  const bool said = run.schedule.has_chunks && run.schedule.chunks == 0;
  const bool alone = run.schedule.makes_together && run.overlap_passes == PassOverlap::off;
  return fmt::format("{}{}{}", name_of(run.schedule), said ? fmt::format(", v {}", run.chunks) : "",
                     alone ? ", passes alone" : "");
}

/// "equal", or "1+3*2+1"
std::string sizes_of(const RunConfig& run) {
  return run.stage_layers.empty() ? "equal" : text_of_layer_counts(run.stage_layers);
}

/// "2 zigzag", of 2 ranks
std::string sharing_of(const RunConfig& run) {
  return run.context_parallel == 1
             ? "1"
             : fmt::format("{} {}", run.context_parallel, name_of(run.context));
}

/// What a plan may search besides: a column where it does, and a part of a configuration's name
/// where that is not the usual.
struct Searched {
  const char* title;
  bool (*is_searched)(const PlanRequest&);
  bool (*is_usual)(const RunConfig&);
  std::string (*text)(const RunConfig&);
};
const std::array<Searched, 6>& also_searched() {
  static const std::array<Searched, 6> all = {
      {{"offload", [](const PlanRequest& r) { return r.searches_offload; },
        [](const RunConfig& run) { return !run.offload; }, offloaded},
       {"c",
        [](const PlanRequest& r) { return r.contexts.size() > 1 || r.contexts.front().ranks > 1; },
        [](const RunConfig& run) { return run.context_parallel == 1; }, sharing_of},
       {"schedule", [](const PlanRequest& r) { return r.schedules.size() > 1; },
        [](const RunConfig& run) {
          return !run.schedule.has_chunks && !run.schedule.splits_backward;
        },
        order_of},
       {"steps validated", [](const PlanRequest& r) { return r.late_steps; },
        [](const RunConfig& run) { return run.validate_steps == StepValidation::before; },
        [](const RunConfig& run) { return std::string(name_of(run.validate_steps)); }},
       {"shard", [](const PlanRequest& r) { return r.shards.size() > 1; },
        [](const RunConfig& run) { return run.shard == Shard::none; },
        [](const RunConfig& run) { return std::string(name_of(run.shard)); }},
       {"layers", [](const PlanRequest& r) { return r.balanced_stages; },
        [](const RunConfig& run) { return run.stage_layers.empty(); }, sizes_of}}};
  return all;
}

/// "2bw", or "searched"
std::string schedule_of(const PlanRequest& request) {
  return request.schedules.size() > 1 ? "searched"
                                      : std::string(name_of(request.schedules.front()));
}

/// A device's peak for the run's type, with its source.
const Machine::Parameter& peak_of(const PlanRequest& request) {
  const std::string key = fmt::format("device.flops_{}", name_of(request.run.type));
  const auto& all = request.machine.parameters;
  return *std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.key == key; });
}

/// Of that peak.
double mfu(const PlanRequest& request, double seconds) {
  const double peak = request.devices * request.machine.peak_flops(request.run.type);
  return model_flops(request.run.model, static_cast<double>(request.batch)) / seconds / peak;
}

double throughput(const PlanRequest& request, double seconds) {
  return static_cast<double>(request.batch) / seconds;
}

std::vector<std::string> row_of(const PlanRequest& request, const Candidate& candidate) {
  const RunConfig& run = candidate.run;
  const Prediction& p = candidate.prediction;
  std::vector<std::string> row = {std::to_string(run.tensor_parallel),
                                  std::to_string(run.data_parallel),
                                  std::to_string(run.pipeline_parallel),
                                  std::to_string(run.micro_batch),
                                  std::to_string(run.microbatches / run.pipeline_parallel),
                                  recomputed(run)};
  for (const Searched& also : also_searched())
    if (also.is_searched(request)) row.push_back(also.text(run));
  row.push_back(fmt::format("{:.2f}", throughput(request, p.seconds)));
  row.push_back(fmt::format("{:.1f}", 100 * mfu(request, p.seconds)));
  row.push_back(format_number(device_hours_per_billion_tokens(run, p.seconds)));
  for (int i = 0; i < bounds; ++i)
    row.push_back(percent(p.parts[static_cast<size_t>(i)] / p.seconds));
  row.push_back(gib(p.memory()));
  return row;
}

Table table_of(const PlanRequest& request, const std::string& last) {
  Table table{{{"t", true}, {"w", true}, {"d", true}, {"b", true}, {"g", true}, {"recompute"}}, {}};
  for (const Searched& also : also_searched())
    if (also.is_searched(request)) table.columns.push_back({also.title});
  for (const char* title : {"sequences/s", "MFU, %", "device-hours per 1e9 tokens"})
    table.columns.push_back({title, true});
  for (int i = 0; i < bounds; ++i)
    table.columns.push_back({std::string(name_of(static_cast<Bound>(i))), true});
  table.columns.push_back({fmt::format("GiB of {}", gib(request.memory)), true});
  if (!last.empty()) table.columns.push_back({last, true});
  return table;
}

nlohmann::json json_of(const PlanRequest& request, const Candidate& candidate) {
  const Prediction& p = candidate.prediction;
  nlohmann::json parts, memory = nlohmann::json::array(), on_host = memory;
  for (int i = 0; i < bounds; ++i)
    parts[std::string(name_of(static_cast<Bound>(i)))] = p.parts[static_cast<size_t>(i)];
  for (const StagePrediction& stage : p.stages) {
    memory.push_back(stage.memory);
    on_host.push_back(stage.on_host);
  }
  return {{"name", configuration_name(candidate.run)},
          {"config", harness::to_json(candidate.run)},
          {"gradient_accumulation", candidate.run.microbatches / candidate.run.pipeline_parallel},
          {"seconds", p.seconds},
          {"sequences_per_second", throughput(request, p.seconds)},
          {"mfu", mfu(request, p.seconds)},
          {"device_hours_per_billion_tokens",
           device_hours_per_billion_tokens(candidate.run, p.seconds)},
          {"seconds_by_part", parts},
          {"memory_per_stage", memory},
          {"host_memory_per_stage", on_host},
          {"missing_memory", candidate.missing}};
}

bool misses_less(const Candidate& a, const Candidate& b) { return a.missing < b.missing; }

Bound largest_part(const Prediction& p) {
  return static_cast<Bound>(std::max_element(p.parts.begin(), p.parts.end()) - p.parts.begin());
}

}  // namespace

std::string configuration_name(const RunConfig& run) {
  const std::string tensor =
      run.tensor_parallel > 1 ? fmt::format("t {}, ", run.tensor_parallel) : "";
  std::string name =
      fmt::format("{}w {}, d {}, b {}, m {}, recompute {}", tensor, run.data_parallel,
                  run.pipeline_parallel, run.micro_batch, run.microbatches, recomputed(run));
  for (const Searched& also : also_searched())
    if (!also.is_usual(run)) name += fmt::format(", {} {}", also.title, also.text(run));
  return name;
}

std::string PlanReport::why() const {
  const Candidate& best = plan.fitting.front();
  const Prediction& p = best.prediction;
  const Bound bound = largest_part(p);
  std::string why =
      fmt::format("{}: {} is {:.0f} % of a batch's {} s", configuration_name(best.run),
                  name_of(bound), 100 * p.part(bound) / p.seconds, format_number(p.seconds));
  if (plan.fitting.size() > 1) {
    const Candidate& next = plan.fitting[1];
    // What the winner saves most of.
    size_t most = 0;
    const auto saved = [&](size_t i) { return next.prediction.parts[i] - p.parts[i]; };
    for (size_t i = 1; i < bounds; ++i)
      if (saved(i) > saved(most)) most = i;
    why += fmt::format("; the next ({}) spends {} s more on {}", configuration_name(next.run),
                       format_number(saved(most)), name_of(static_cast<Bound>(most)));
  }
  const auto slower =
      std::find_if(plan.too_large.begin(), plan.too_large.end(),
                   [&](const auto& c) { return c.prediction.seconds >= p.seconds; });
  if (slower != plan.too_large.begin()) {
    const Candidate& large = *std::min_element(plan.too_large.begin(), slower, misses_less);
    why += fmt::format(
        "; {} would be {:.1f} % faster, but does not fit by {}", configuration_name(large.run),
        100 * (p.seconds / large.prediction.seconds - 1), format_bytes(large.missing).text());
  }
  return why;
}

std::string PlanReport::text() const {
  Table fitting = table_of(request, executed.empty() ? "" : "executed");
  for (size_t i = 0; i < std::min(rows, plan.fitting.size()); ++i) {
    fitting.rows.push_back(row_of(request, plan.fitting[i]));
    if (executed.empty()) continue;
    fitting.rows.back().push_back(
        i < executed.size() ? fmt::format("{:.2f}", throughput(request, executed[i].seconds)) : "");
  }
  Table large = table_of(request, "does not fit by GiB");
  for (const Candidate& candidate : plan.too_large) {
    if (large.rows.size() == rows ||
        candidate.prediction.seconds >= plan.fitting.front().prediction.seconds)
      break;
    large.rows.push_back(row_of(request, candidate));
    large.rows.back().push_back(gib(candidate.missing));
  }
  const std::string slower =
      plan.slower > 0 ? fmt::format("{} take over {} times as long as the fastest that does; ",
                                    plan.slower, format_number(request.within))
                      : "";
  std::string text = parameters_line(request.run.model);
  text += fmt::format(
      "{} on {} devices of {}, batch {}, schedule {}: {} configurations fit, {} do not; {}{} more "
      "have microbatches that are no multiple of d\n{}",
      request.run.model.name, request.devices, request.machine.name, request.batch,
      schedule_of(request), plan.fitting.size(), plan.too_large.size(), slower, plan.not_filling,
      fitting.text());
  if (!large.rows.empty()) text += "faster, but too large:\n" + large.text();
  const Machine::Parameter& peak = peak_of(request);
  text += fmt::format("MFU: FLOPs by {}, of {:.4g} TFLOP/s a device ({})\n",
                      model_formula(request.run.model), peak.value / 1e12, peak.source);
  return text + "why: " + why() + "\nrun: " + command + "\n";
}

nlohmann::json PlanReport::json() const {
  nlohmann::json fitting = nlohmann::json::array(), large = nlohmann::json::array();
  for (size_t i = 0; i < plan.fitting.size(); ++i) {
    fitting.push_back(json_of(request, plan.fitting[i]));
    if (i < executed.size())
      fitting.back()["executed"] = {{"seconds", executed[i].seconds},
                                    {"memory_per_stage", executed[i].memory},
                                    {"host_memory_per_stage", executed[i].on_host}};
  }
  for (const Candidate& candidate : plan.too_large) large.push_back(json_of(request, candidate));
  return {{"schema", "frugal.plan/1"},
          {"model", to_json(request.run.model)},
          {"machine", request.machine.name},
          {"devices", request.devices},
          {"batch", request.batch},
          {"schedule", schedule_of(request)},
          {"memory", request.memory},
          {"model_flops_formula", model_formula(request.run.model)},
          {"peak_flops", {{"value", peak_of(request).value}, {"source", peak_of(request).source}}},
          {"fitting", fitting},
          {"too_large", large},
          {"slower", plan.slower},
          {"not_filling", plan.not_filling},
          {"why", why()},
          {"command", command}};
}

std::string why_nothing_fits(const PlanRequest& request, const Plan& plan) {
  const Candidate& closest =
      *std::min_element(plan.too_large.begin(), plan.too_large.end(), misses_less);
  return fmt::format(
      "none of {} configurations fits in {} of a device (--memory); the closest ({}) misses by "
      "{} on stage {}; give more --devices, --tensor-parallel searched or another --schedule",
      plan.too_large.size(), format_bytes(request.memory).text(), configuration_name(closest.run),
      format_bytes(closest.missing).text(), closest.prediction.fullest());
}

}  // namespace frugal::harness
