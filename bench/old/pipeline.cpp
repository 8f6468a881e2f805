// A pipeline of two stages on two cores: how fast each schedule is, and its bubble beside what the
// schedule alone makes of the measured passes and beside the ideal (p − 1)/m. All cases run by
// turns in the same rounds, 16 microbatches each; one pass of a stage takes tens of milliseconds,
// so that waking a thread is nothing beside it. h 512 (--hidden), a 8, L 4, s 128, v 128 (the head
// is 1 % of the last stage), SGD without clipping, whose norm all stages would wait for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "engine/train/trainer.h"
#include "harness/measure/as_planned.h"
#include "harness/measure/statistics.h"
#include "harness/measure/timing.h"
#include "harness/place/environment.h"
#include "harness/report/table.h"
#include "kernels/cpu/waiting.h"
#include "kernels/support/error.h"

namespace frugal::bench {
namespace {

constexpr int stages = 2, microbatches_of_run = 16;

RunConfig config_of(ScheduleKind schedule, int microbatches, int64_t hidden) {
  RunConfig c;
  c.model = {.name = "pipeline",
             .layers = 4,
             .hidden = hidden,
             .heads = 8,
             .sequence = 128,
             .vocabulary = 128,
             .dropout = 0.1};
  c.pipeline_parallel = stages;
  c.schedule = schedule;
  c.microbatches = microbatches;
  return c;
}

/// Idle over busy time, all stages together: the papers' bubble.
double bubble_of(const Timeline& timeline) {
  double idle = 0, busy = 0;
  for (const Bubble& b : bubbles(timeline)) {
    idle += b.idle();
    busy += b.busy;
  }
  return idle / busy;
}

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

/// What the rounds gave of one quantity each, in seconds or as fractions.
struct Samples {
  std::vector<double> seconds;  // of all microbatches
  std::vector<double> bubble, planned_bubble;
  std::vector<double> steady_bubble, planned_steady_bubble;  // of 2BW alone
  std::vector<double> forward, backward, step;
  std::vector<double> imbalance;  // passes of the last stage over those of the first
};

class Case {
 public:
  Case(ScheduleKind schedule, int microbatches, int64_t hidden, bool timeline)
      : schedule_(schedule),
        microbatches_(microbatches),
        config_(config_of(schedule, microbatches, hidden)),
        cluster_(make_cpu_cluster(config_, stages, LocalGroup::default_deadline, Pinning::cores)),
        trainer_(*cluster_, config_,
                 {.optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 1e-3, .clip = 0}}),
        timeline_(timeline) {
    for (int i = 0; i < microbatches_of_run / microbatches; ++i)
      batches_.push_back(random_batch(config_, i));
    trainer_.keep_timeline(timeline);
  }

  void run(bool keep) {
    double seconds = 0;
    for (const StepResult& result : trainer_.run(batches_)) seconds += result.seconds;
    if (!keep) return;
    samples_.seconds.push_back(seconds);
    if (timeline_) add(trainer_.timeline());
  }

  std::string name() const {
    return fmt::format("{} m {}{}", name_of(schedule_), microbatches_,
                       timeline_ ? "" : ", no timeline");
  }
  ScheduleKind schedule() const { return schedule_; }
  int microbatches() const { return microbatches_; }
  bool traced() const { return timeline_; }
  const Samples& samples() const { return samples_; }

  /// (p − 1)/m with a flush, m = 1 where one microbatch goes through at a time; none without.
  double ideal() const {
    if (!schedule_.flushes) return 0;
    return (stages - 1.0) / (schedule_.steady == SteadyState::alone ? 1 : microbatches_);
  }

  nlohmann::json json() const {
    const Samples& s = samples_;
    return {{"case", name()},
            {"schedule", name_of(schedule_)},
            {"microbatches", microbatches_},
            {"batches", batches_.size()},
            {"timeline", timeline_},
            {"ideal_bubble", ideal()},
            {"seconds", s.seconds},
            {"bubble", s.bubble},
            {"planned_bubble", s.planned_bubble},
            {"steady_bubble", s.steady_bubble},
            {"planned_steady_bubble", s.planned_steady_bubble},
            {"forward_seconds", s.forward},
            {"backward_seconds", s.backward},
            {"step_seconds", s.step},
            {"last_stage_over_first", s.imbalance}};
  }

 private:
  void add(const Timeline& recorded) {
    const Timeline measured = schedule_.flushes ? with_steps_begun_together(recorded) : recorded;
    const Timeline planned = as_planned(schedule_, measured);
    samples_.bubble.push_back(bubble_of(measured));
    samples_.planned_bubble.push_back(bubble_of(planned));
    if (!schedule_.flushes) {
      samples_.steady_bubble.push_back(bubble_of(steady_part(measured)));
      samples_.planned_steady_bubble.push_back(bubble_of(steady_part(planned)));
    }
    const Durations durations = median_durations(measured);
    samples_.forward.push_back(durations.forward);
    samples_.backward.push_back(durations.backward);
    samples_.step.push_back(durations.step);
    const auto busy = bubbles(measured);
    samples_.imbalance.push_back(busy.back().busy / busy.front().busy);
  }

  ScheduleKind schedule_;
  int microbatches_;
  RunConfig config_;
  std::unique_ptr<Cluster> cluster_;
  Trainer trainer_;
  bool timeline_;
  std::vector<Batch> batches_;
  Samples samples_;
};

using Cases = std::vector<std::unique_ptr<Case>>;

const Case& find(const Cases& cases, ScheduleKind schedule, int microbatches, bool traced) {
  return **std::find_if(cases.begin(), cases.end(), [&](const auto& c) {
    return c->schedule() == schedule && c->microbatches() == microbatches && c->traced() == traced;
  });
}

std::string text(const Estimate& e) {
  if (!e.interval) return fmt::format("{:.3f}", e.value);
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", e.value, e.interval->low, e.interval->high);
}

Table table_of(const Cases& cases) {
  Table table;
  table.columns = {{"case"},           {"microbatches/s", true}, {"times 1F1B's", true},
                   {"bubble", true},   {"planned", true},        {"(p − 1)/m", true},
                   {"steady", true},   {"planned", true},        {"forward ms", true},
                   {"backward", true}, {"step", true},           {"last/first", true}};
  for (const auto& c : cases) {
    const Samples& s = c->samples();
    const Samples& base =
        find(cases, ScheduleKind::one_forward_one_backward, c->microbatches(), true).samples();
    std::vector<std::string> row = {c->name(),
                                    fmt::format("{:.2f}", microbatches_of_run / median(s.seconds)),
                                    text(paired_ratio(base.seconds, s.seconds))};
    const auto of = [](const std::vector<double>& samples, double factor = 1) {
      return samples.empty() ? "" : fmt::format("{:.3f}", factor * median(samples));
    };
    row.push_back(s.bubble.empty() ? "" : text(median_estimate(s.bubble)));
    row.push_back(of(s.planned_bubble));
    row.push_back(fmt::format("{:.3f}", c->ideal()));
    row.push_back(s.steady_bubble.empty() ? "" : text(median_estimate(s.steady_bubble)));
    row.push_back(of(s.planned_steady_bubble));
    for (const auto* times : {&s.forward, &s.backward, &s.step}) row.push_back(of(*times, 1e3));
    row.push_back(of(s.imbalance));
    table.rows.push_back(row);
  }
  return table;
}

void measure(const TimingPlan& plan, int64_t hidden, const std::string& file) {
  Cases cases;
  for (const ScheduleKind& schedule :
       {ScheduleKind::inter_layer, ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward,
        ScheduleKind::two_buffered})
    for (const int m : {2, 4, 8})
      cases.push_back(std::make_unique<Case>(schedule, m, hidden, true));
  cases.push_back(std::make_unique<Case>(ScheduleKind::one_forward_one_backward, 4, hidden, false));
  std::vector<std::function<void(bool)>> runs;
  for (const auto& c : cases) runs.emplace_back([&c](bool keep) { c->run(keep); });
  const double load_before = load();
  const int rounds = time_interleaved(runs, plan);
  const double load_after = load();
  fmt::print("{} rounds; load {:.1f} before, {:.1f} after\n{}", rounds, load_before, load_after,
             table_of(cases).text());
  nlohmann::json all = nlohmann::json::array();
  for (const auto& c : cases) all.push_back(c->json());
  write_json(file, {{"schema", "frugal.pipeline/1"},
                    {"stages", stages},
                    {"microbatches_of_run", microbatches_of_run},
                    {"hidden_size", hidden},
                    {"rounds", rounds},
                    {"load", {load_before, load_after}},
                    {"environment", environment(DeviceKind::cpu)},
                    {"cases", all}});
}

}  // namespace
}  // namespace frugal::bench

int main(int argc, char** argv) {
  frugal::kernels::limit_spinning(argv);
  frugal::harness::TimingPlan plan{.warm_up = 1, .samples = 15, .budget = 600};
  int64_t hidden = 512;
  std::string json;
  CLI::App app("Pipelines of two stages, each on a core of its own", "frugal_bench_pipeline");
  app.add_option("--samples", plan.samples, "Rounds that are wanted, at least 10");
  app.add_option("--budget", plan.budget, "Seconds after which no round beyond 10 begins");
  app.add_option("--hidden", hidden,
                 "Hidden size, a multiple of 8: 512 unless cores are much faster");
  app.add_option("--json", json, "File for raw samples");
  try {
    app.parse(argc, argv);
    frugal::bench::measure(plan, hidden, json);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const frugal::kernels::InputError& error) {
    fmt::print(stderr, "frugal_bench_pipeline: {}\n", error.what());
    return 2;
  }
}
