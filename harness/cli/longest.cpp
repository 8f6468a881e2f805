#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/run_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/progress.h"
#include "harness/measure/runs/training.h"
#include "harness/report/commands/longest_report.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct LongestValues {
  RunFlags run{
      {Section::model, Section::place, Section::layout, Section::memory, Section::training}};
  std::optional<int64_t> memory;
  std::string format = "table";
};

/// Of each rank. More than there is would let the processor take it all before it is known.
int64_t memory_within(const LongestValues& values, const Target& target, const RunConfig& run) {
  if (values.memory && target.kind() == DeviceKind::cuda)
    throw InputError("--memory: a GPU has what it has; leave it out");
  const int64_t there = target.memory_of_rank(run);
  const int64_t memory = values.memory.value_or(there);
  if (!target.simulated() && memory > there)
    throw InputError(fmt::format(
        "--memory is {}, and {} can give each rank {} now; give less, or use --on virtual",
        format_bytes(memory).text(), target.on(), format_bytes(there).text()));
  return memory;
}

/// A training of so many tokens that begins as take_step() does.
TrainingRun training_of(const StepOf& step, int64_t tokens) {
  TrainingRun run{{}, step.with(tokens)};
  run.train.optimizer = step.optimizer;
  run.train.steps = steps_to_settle(run.config);
  return run;
}

/// Longest sequence that fits, and what the next longer one needs; throws OutOfMemory if none does.
LongestSequence found_on(const Target& machine, const StepOf& step) {
  LongestSequence found;
  with_needed(training_of(step, step.granularity()), machine,
              [&] { found = longest_sequence(step, *machine.machine()); });
  if (!found.at_least())
    found.refused_because =
        in_words(needed_by(training_of(step, found.tokens + found.granularity), machine),
                 found.refused_because);
  return found;
}

LengthTried run_one(const Target& target, const StepOf& step, int64_t tokens, int64_t memory) {
  stop_if_interrupted();
  LengthTried length{.tokens = tokens, .fits = false, .reason = {}, .peak = 0};
  const RunConfig run = step.with(tokens);
  try {
    length.peak =
        take_step(*target.cluster_with(run, memory), run, step.optimizer).memory.peak_total;
    length.fits = true;
  } catch (const OutOfMemory& error) {
    length.reason = error.what();
  }
  return length;
}

Exit longest(const LongestValues& values) {
  const RunSettings settings = values.run.settings();
  RunSettings asked = settings;
  // Whatever is wrong with the model's own length is not asked.
  asked.given["sequence_length"] = StepOf{settings.config, {}}.granularity() * settings.scale;
  const auto place = target_of(asked);
  const Target& target = *place;
  TrainingRun run = training_run(asked, target);
  run.config.model.name = unscaled_model(settings).name;  // its length alone is no other model
  const StepOf step{run.config, run.train.optimizer};
  catch_interrupts();
  const int64_t memory = memory_within(values, target, run.config);
  LongestReport report{.step = step,
                       .on = target.on(),
                       .device = target.device(),
                       .memory = memory,
                       .longest = found_on(*virtual_target(target, memory), step),
                       .tried = {},
                       .command = "frugal longest" + command_flags(settings, run, target)};
  if (values.memory) report.command += fmt::format(" --memory {}", byte_count().text(memory));
  const LongestSequence& found = report.longest;
  if (!target.simulated()) {
    // A GPU may have room for a little more.
    const size_t lengths = found.at_least() || target.kind() == DeviceKind::cuda ? 1 : 2;
    Progress progress(lengths);
    for (size_t i = 0; i < lengths; ++i) {
      const int64_t tokens = found.tokens + static_cast<int64_t>(i) * found.granularity;
      const std::string what = fmt::format("{} tokens on {}", tokens, target.on());
      progress.working_on(what);
      report.tried.push_back(run_one(target, step, tokens, memory));
      progress.finished(what, report.tried.back().fits ? "fits" : "does not fit");
    }
  }
  fmt::print("{}", values.format == "json" ? report.json().dump(2) + "\n"
                                           : report.table().in(values.format));
  if (report.confirmed()) return Exit::done;
  fmt::print(stderr, "frugal: {} has not done as its virtual counterpart\n", target.on());
  return Exit::claim_failed;
}

}  // namespace

void add_longest(CommandLine& line) {
  const auto values = std::make_shared<LongestValues>();
  Flags flags = line.command(
      "longest",
      "The longest sequence that your own configuration can be trained on, and what takes the "
      "memory",
      [values] { return longest(*values); });
  values->run.add_to(flags);
  flags.bytes("--memory", values->memory,
              "Memory of each rank, such as 2GiB, instead of the machine's; on virtual and cpu");
  flags.format(values->format, "How to print it on stdout");
}

}  // namespace frugal::harness
