#include "bench/numbers.h"

#include <algorithm>
#include <cmath>

#include "harness/measure/runs/as_planned.h"
#include "harness/measure/statistics.h"

namespace frugal::bench {
namespace {

/// After the fill and before the drain: from when all stages have begun their first backward pass
/// until one has made its last forward pass.
Timeline steady_part(const Timeline& timeline) {
  double begin = 0, end = timeline.end();
  for (const auto& spans : timeline.stages) {
    double first_backward = timeline.end(), last_forward = 0;
    for (const Span& span : spans) {
      if (span.action.kind == ActionKind::backward)
        first_backward = std::min(first_backward, span.begin);
      if (span.action.kind == ActionKind::forward) last_forward = std::max(last_forward, span.end);
    }
    begin = std::max(begin, first_backward);
    end = std::min(end, last_forward);
  }
  Timeline part = timeline;
  for (auto& spans : part.stages) {
    std::erase_if(spans, [&](const Span& span) { return span.end <= begin || span.begin >= end; });
    for (Span& span : spans) {
      span.begin = std::max(span.begin, begin);
      span.end = std::min(span.end, end);
    }
  }
  return part;
}

}  // namespace

double ideal_bubble(const RunConfig& config) {
  if (!config.schedule.flushes) return 0;
  const bool alone = config.schedule.steady == SteadyState::alone;
  return (config.pipeline_parallel - 1.0) / static_cast<double>(alone ? 1 : config.microbatches);
}

void add_timeline(const Timeline& recorded, const ScheduleKind& schedule, Record& record) {
  const Timeline measured = schedule.flushes ? with_steps_begun_together(recorded) : recorded;
  const Timeline planned = as_planned(schedule, measured);
  record.add_sample("bubble", "1", idle_over_busy(measured));
  record.add_sample("planned_bubble", "1", idle_over_busy(planned));
  if (!schedule.flushes) {
    record.add_sample("steady_bubble", "1", idle_over_busy(steady_part(measured)));
    record.add_sample("planned_steady_bubble", "1", idle_over_busy(steady_part(planned)));
  }
  const Durations durations = median_durations(measured);
  record.add_sample(metric::forward_time, "s", durations.forward);
  record.add_sample(metric::backward_time, "s", durations.backward);
  record.add_sample(metric::step_time, "s", durations.step);
  const auto busy = bubbles(measured);
  record.add_sample("last_stage_over_first", "1", busy.back().busy / busy.front().busy);
}

void add_memory(const nlohmann::json& kept, const nlohmann::json& within, Record& record) {
  const auto add = [&](const nlohmann::json& process, const std::string& end) {
    for (const auto& [name, bytes] : process.items())
      if (end.empty() || !name.starts_with("ledger"))
        record.add_sample(name + end, "bytes", bytes.get<double>());
    record.add_sample(
        "resident_growth" + end, "bytes",
        process.at("resident_peak").get<double>() - process.at("resident_before").get<double>());
  };
  add(kept, "");
  add(within, "_within_peak");
}

void add_prediction(double seconds, const char* time, const char* error, Record& record) {
  record.add_sample(time, "s", seconds);
  record.add_sample(error, "1", seconds / median(record.samples(metric::time)) - 1);
}

double sent_by_rank(const std::string& exchange, double whole, double ranks) {
  const double others = (ranks - 1) / ranks;
  if (exchange == "all-reduce") return 2 * others * whole;
  return exchange == "all-gather" || exchange == "reduce-scatter" ? others * whole : whole;
}

void ExecutedPlan::add(const std::string& name, const Cost& predicted, const Cost& executed) {
  if (executed_++ == 0) {
    first_ = best_of_ten_ = executed.seconds;
    first_name_ = name;
  }
  if (executed_ <= settled) best_of_ten_ = std::min(best_of_ten_, executed.seconds);
  if (executed_ == 1 || executed.seconds < best_) {
    best_ = executed.seconds;
    best_name_ = name;
  }
  const double error = predicted.seconds / executed.seconds - 1;
  if (std::abs(error) > std::abs(error_)) {
    error_ = error;
    least_exact_time_ = name;
  }
  for (size_t i = 0; i < executed.memory.size(); ++i) {
    const int64_t more = predicted.memory[i] - executed.memory[i];
    if (std::abs(more) <= std::abs(memory_)) continue;
    memory_ = more;
    least_exact_memory_ = name;
  }
}

void ExecutedPlan::add_to(Record& record, size_t considered) const {
  record.findings["first choice"] = first_name_;
  record.findings["best executed"] = best_name_;
  record.findings["least exact time"] = least_exact_time_;
  record.findings["least exact memory"] = least_exact_memory_;
  record.add_sample("configurations", "1", static_cast<double>(considered));
  record.add_sample("executed", "1", static_cast<double>(executed_));
  record.add_sample("first_choice_time", "s", first_);
  record.add_sample("best_executed_time", "s", best_);
  record.add_sample("slower_by", "1", first_ / best_ - 1);
  record.add_sample("settled_slower_by", "1", best_of_ten_ / best_ - 1);
  record.add_sample("largest_time_error", "1", error_);
  record.add_sample("largest_memory_error", "bytes", static_cast<double>(memory_));
}

}  // namespace frugal::bench
