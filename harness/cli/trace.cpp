#include "harness/measure/runs/trace.h"

#include <fmt/format.h>

#include <memory>

#include "engine/schedule/draw.h"
#include "engine/train/trainer.h"
#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/progress.h"
#include "harness/measure/runs/as_planned.h"
#include "harness/measure/runs/memory_timeline.h"
#include "harness/measure/runs/training.h"
#include "harness/report/formats/memory_snapshot.h"
#include "harness/report/measurement.h"
#include "harness/report/table.h"
#include "harness/settings/paths.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct TraceValues {
  RunFlags run{groups_of_a_training};
  std::string out_file, svg, memory, snapshot;

  /// What is written, by flags. The first that is there names the run.
  std::vector<FlagFile> outputs() const {
    return {{"--out-file", out_file},
            {"--memory-file", memory},
            {"--memory-snapshot", snapshot},
            {"--svg", svg}};
  }
  bool force = false;
};

/// Before anything is run.
void check_outputs(const TraceValues& values, const RunSettings& settings) {
  if (values.out_file.empty() && values.memory.empty() && values.snapshot.empty())
    throw InputError(
        "--out-file is missing; give a file for the trace, such as trace.json, or --memory-file or "
        "--memory-snapshot");
  const std::vector<FlagFile> outputs = values.outputs();
  check_distinct(outputs, values.run.inputs(settings));
  for (const auto& [flag, path] : outputs)
    if (!path.empty()) check_output_file(flag, path, values.force);
}

std::string outputs_text(const TraceValues& values) {
  for (const auto& [flag, path] : values.outputs())
    if (!path.empty()) return fmt::format(" {} {}", flag, shell_word(file_name(path)));
  return "";
}

std::string picture(const Timeline& timeline, const TrainingRun& run, const Target& target) {
  const std::string name =
      fmt::format("{}{}", name_of(run.config.schedule), run.own ? " of a file" : "");
  Timeline planned =
      run.own ? as_planned(run.own->schedule, timeline) : as_planned(run.config.schedule, timeline);
  planned.title = fmt::format("{}, planned with the medians of the actions' times", name);
  Timeline done = timeline;
  done.title = fmt::format("{} on {}{}", name, target.on(), target.simulated() ? "" : ", measured");
  return draw_svg({planned, done});
}

/// Of the last run(). Waiting in a step is idle time.
Timeline timeline_of(const Trainer& trainer, const TrainingRun& run) {
  const bool meets = run.config.schedule.flushes || run.train.optimizer.clip > 0;
  const bool together = meets && !run.config.validates_later();
  return together ? with_steps_begun_together(trainer.timeline()) : trainer.timeline();
}

/// Where each stage's time went.
Table bubble_table(const Timeline& timeline) {
  Table table;
  table.columns = {{"stage"},       {"busy", true},          {"idle", true},  {"start-up", true},
                   {"drain", true}, {"communication", true}, {"stalls", true}};
  const std::vector<Bubble> all = bubbles(timeline);
  for (size_t stage = 0; stage < all.size(); ++stage) {
    const Bubble& b = all[stage];
    std::vector<std::string> row{std::to_string(stage)};
    for (const double part : {b.busy, b.idle(), b.start_up, b.drain, b.communication, b.stalls})
      row.push_back(fmt::format("{:.1f} %", 100 * part / b.total()));
    table.rows.push_back(row);
  }
  return table;
}

void run_and_write(const TraceValues& values, const RunSettings& settings, const TrainingRun& run,
                   const Target& target) {
  const auto cluster = target.cluster(run.config);
  TraceRecorder recorder(*cluster);
  Trainer trainer(*cluster, run.config, run.train);
  warm_up(trainer, run, target);
  recorder.begin(trainer);
  Progress progress(static_cast<size_t>(run.train.steps));
  train_steps(
      trainer, run, target,
      [&](int64_t step, const std::string& outcome) {
        progress.finished(fmt::format("step {}", step), outcome);
      },
      [&](int64_t, const std::vector<StepResult>&) { recorder.add(trainer); });
  progress.finish();
  Trace trace = recorder.take();
  trace.about = about("trace", settings, run, target, outputs_text(values));
  if (!values.out_file.empty()) write_file(values.out_file, to_json(trace));
  if (!values.memory.empty()) write_file(values.memory, memory_to_json(trace));
  if (!values.snapshot.empty()) write_file(values.snapshot, memory_snapshot(trace));
  const Timeline timeline = timeline_of(trainer, run);
  if (!values.svg.empty()) write_file(values.svg, picture(timeline, run, target));
  fmt::print("{}{}", parameters_line(run.config.model), bubble_table(timeline).text());
  if (!values.out_file.empty())
    fmt::print("open {} at https://ui.perfetto.dev or in chrome://tracing\n", values.out_file);
  if (!values.snapshot.empty())
    fmt::print("open {} at https://pytorch.org/memory_viz\n", values.snapshot);
}

Exit trace(const TraceValues& values) {
  const RunSettings settings = values.run.settings();
  const auto target = target_of(settings);
  const TrainingRun run = training_run(settings, *target);
  check_outputs(values, settings);
  catch_interrupts();
  warn_of_clipping(run);
  with_needed(run, *target, [&] { run_and_write(values, settings, run, *target); });
  return Exit::done;
}

}  // namespace

void add_trace(CommandLine& line) {
  const auto values = std::make_shared<TraceValues>();
  Flags flags =
      line.command("trace", "Train your own configuration and write when each stage did what",
                   [values] { return trace(*values); });
  values->run.add_to(flags);
  flags.text("--out-file", values->out_file, "FILE",
             "The trace, for Perfetto or Chrome (docs/trace.md)");
  flags.text("--svg", values->svg, "FILE",
             "Also draw the last batches' passes, below what the schedule plans");
  flags.text("--memory-file", values->memory, "FILE",
             "Bytes of each kind of memory after each change, in JSON, for plots "
             "(docs/trace.md)");
  flags.text("--memory-snapshot", values->snapshot, "FILE",
             "What was taken and given back, as a memory snapshot of PyTorch's for its viewer "
             "(docs/trace.md)");
  flags.toggle("--force", values->force,
               "Replace the files of --out-file, --svg, --memory-file and --memory-snapshot");
}

}  // namespace frugal::harness
