#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "engine/train/trainer.h"
#include "harness/cli/command_line.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/progress.h"
#include "harness/measure/runs/step_operations.h"
#include "harness/measure/runs/training.h"
#include "harness/measure/statistics.h"
#include "harness/report/measurement.h"
#include "harness/settings/resolve.h"

namespace frugal::harness {
namespace {

struct OperationsValues {
  RunFlags run{groups_of_a_training};
  std::string format = "table";
};

/// Seconds of each step with its operations timed, and without.
struct StepSeconds {
  std::vector<double> timed, plain;
};

/// As many steps with every operation timed as without, by turns where a step ends before the next
/// begins.
StepSeconds take_steps(Trainer& trainer, const TrainingRun& run, const Target& target,
                       StepOperations& operations) {
  const RunConfig& config = run.config;
  const bool apart = config.schedule.flushes && !config.validates_later() && !run.own;
  StepSeconds seconds;
  Progress progress(static_cast<size_t>(2 * run.train.steps));
  TrainingRun until = run;
  for (int64_t step = 0; step < 2 * run.train.steps; step = until.train.steps) {
    until.train.steps = step + (apart ? 1 : run.train.steps);
    const bool timed = seconds.timed.size() == seconds.plain.size();
    operations.time(timed);
    train_steps(
        trainer, until, target,
        [&](int64_t each, const std::string& outcome) {
          progress.finished(fmt::format("step {}", each), outcome);
        },
        [&](int64_t, const std::vector<StepResult>& results) {
          for (const StepResult& result : results)
            (timed ? seconds.timed : seconds.plain).push_back(result.seconds);
        },
        step);
  }
  progress.finish();
  return seconds;
}

void run_and_print(const OperationsValues& values, const RunSettings& settings,
                   const TrainingRun& run, const Target& target) {
  const auto cluster = target.cluster(run.config);
  Trainer trainer(*cluster, run.config, run.train);
  StepOperations timed(*cluster);
  warm_up(trainer, run, target);
  const StepSeconds seconds = take_steps(trainer, run, target, timed);
  const auto stages = timed.of_steps(run.train.steps);
  if (values.format != "table") {
    nlohmann::json all = about("operations", settings, run, target);
    all["schema"] = StepOperations::schema;
    all["steps"] = run.train.steps;
    all["step_seconds"] = seconds.timed;
    all["plain_step_seconds"] = seconds.plain;
    all["stages"] = to_json(stages, run.train.steps);
    fmt::print("{}\n", values.format == "json" ? all.dump(2) : all.dump());
    return;
  }
  fmt::print("{}{}\na step: {:.3f} ms, with every operation timed: {:.3f} ms\n",
             parameters_line(run.config.model), target.device(run.config),
             1e3 * median(seconds.plain), 1e3 * median(seconds.timed));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages.size() > 1) fmt::print("\nstage {}\n", stage);
    fmt::print("{}", step_operations_table(stages[stage], run.train.steps).text());
  }
}

Exit operations(const OperationsValues& values) {
  const RunSettings settings = values.run.settings();
  const auto target = target_of(settings);
  const TrainingRun run = training_run(settings, *target);
  catch_interrupts();
  warn_of_clipping(run);
  with_needed(run, *target, [&] { run_and_print(values, settings, run, *target); });
  return Exit::done;
}

}  // namespace

void add_operations(CommandLine& line) {
  const auto values = std::make_shared<OperationsValues>();
  Flags flags = line.command(
      "operations", "Train your own configuration and time each operation of a step on its own",
      [values] { return operations(*values); });
  values->run.add_to(flags);
  flags.choice("--format", values->format, {"table", "json", "line"},
               "How to print it; line is JSON in one line (docs/trace.md)");
}

}  // namespace frugal::harness
