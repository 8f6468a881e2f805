#include "harness/measure/runs/lone_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/plan/lone_stage.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runs/training.h"

namespace frugal::harness {
namespace {

/// The number of a step, from 0, and what a stage took for it.
using OnStep = std::function<void(size_t step, const StageSeconds& seconds)>;

/// Steps that are trained in one go: all of a schedule without a flush, which goes on from one to
/// the next.
int64_t steps_at_once(const TrainingRun& run) {
  return run.config.schedule.flushes ? 1 : run.train.steps;
}

/// Memory of a stage that ran, and when its timed steps did.
struct StageTrained {
  Memory memory;
  TimeWindow timed;
};

StageTrained train_stage(const TrainingRun& run, const Target& target, int stage,
                         const OnStep& taken) {
  const RunConfig config = lone_stage_of(run.config);
  const auto cluster = target.cluster_of_stage(config, stage);
  LoneStage lone(*cluster, run.config, run.train);
  const bool warm = run.train.steps == 1;
  if (warm && !target.simulated()) lone.warm_up(training_batch(run, config, target, 0));
  TimedSteps timed(warm);
  for (int64_t step = 0; step < run.train.steps;) {
    stop_if_interrupted();
    std::vector<Batch> batches;
    for (int64_t i = 0; i < steps_at_once(run); ++i)
      batches.push_back(training_batch(run, config, target, step + i));
    const std::vector<StageSeconds> results = lone.run(batches);
    timed.took(results.size());
    for (const StageSeconds& seconds : results) taken(static_cast<size_t>(step++), seconds);
  }
  return {memory_of(*cluster), timed.window()};
}

/// Adds what another stage has taken: the fullest's comes first.
void add_stage(Memory& all, const Memory& stage) {
  if (stage.peak_total > all.peak_total) {
    all.peak = stage.peak;
    all.peak_total = stage.peak_total;
  }
  if (stage.reserved) all.reserved = std::max(all.reserved.value_or(0), *stage.reserved);
  all.host_peak = std::max(all.host_peak, stage.host_peak);
  all.stages.insert(all.stages.end(), stage.stages.begin(), stage.stages.end());
}

void add_samples(Record& record, const StepParts& parts) {
  for (const auto& [name, seconds] : {std::pair{metric::step_time, parts.seconds()},
                                      {metric::computation_time, parts.computation},
                                      {metric::communication_time, parts.communication},
                                      {metric::bubble_time, parts.bubble}})
    record.add_sample(name, "s", seconds);
}

}  // namespace

std::vector<TimeWindow> train_lone_stages(const TrainingRun& run, const Target& target,
                                          Record& record, const StepDone& done) {
  record.lone_stages = LoneStages{distinct_stages(run.config)};
  const std::vector<int>& distinct = record.lone_stages->stages;
  StagesTogether together(run.config, run.train.optimizer, *target.links());
  std::vector<std::vector<StageSeconds>> steps(static_cast<size_t>(run.train.steps));
  std::vector<TimeWindow> timed;
  double flops = 0;
  Memory memory;
  for (const int stage : distinct) {
    const StageTrained trained =
        train_stage(run, target, stage, [&](size_t step, const StageSeconds& seconds) {
          std::vector<StageSeconds>& stages = steps[step];
          stages.push_back(seconds);
          if (stages.size() < distinct.size()) return;
          const StepParts parts = together.of(stages);
          flops = together.flops(stages);
          if (step > 0 || steps.size() == 1) add_samples(record, parts);
          done(static_cast<int64_t>(step) + 1,
               fmt::format("{:.3g} {}s", parts.seconds(), target.simulated() ? "virtual " : ""));
        });
    add_stage(memory, trained.memory);
    timed.push_back(trained.timed);
  }
  record.memory = memory;
  record.flops = flops_of(run.config, flops);
  return timed;
}

void observe_lone_stages(const Target& target, Record& record) {
  const RunConfig& run = record.config;
  const RunConfig config = lone_stage_of(run);
  const OptimizerOptions optimizer = default_optimizer(run);
  record.lone_stages = LoneStages{distinct_stages(run)};
  std::vector<StageSeconds> stages;
  Memory memory;
  for (const int stage : record.lone_stages->stages) {
    stop_if_interrupted();
    const auto cluster = target.cluster_of_stage(config, stage);
    const StepTaken taken = take_step(*cluster, config, optimizer);
    add_stage(memory, taken.memory);
    stages.emplace_back().flops = taken.flops / config.ranks();  // which says it of all
  }
  record.memory = memory;
  record.flops = flops_of(run, StagesTogether(run, optimizer, *target.links()).flops(stages));
}

}  // namespace frugal::harness
