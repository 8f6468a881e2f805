#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/program.h"
#include "harness/cli/run_flags.h"
#include "harness/interrupt.h"
#include "harness/longest_report.h"
#include "harness/progress.h"
#include "harness/training.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

struct LongestValues {
  RunFlags run;
  std::optional<int64_t> memory;
  std::string format = "table";
};

/// What says something of a run that this command says itself.
void refuse_what_is_searched(const LongestValues& values, const Target& target) {
  const auto refuse = [](bool given, const char* flag, const char* why) {
    if (given) throw InputError(fmt::format("{}: {}; leave it out", flag, why));
  };
  refuse(values.run.model.sequence.has_value(), "--sequence", "it is what is searched for");
  refuse(!values.run.text.empty(), "--text", "no texts are needed to see what fits");
  refuse(values.run.steps.value_or(1) != 1, "--steps", "one step is taken of each length");
  refuse(values.run.warm_up.value_or(0) != 0, "--warm-up", "one step is taken of each length");
  refuse(!values.run.pipeline.file.empty(), "--schedule-file", "schedules are known by name here");
  refuse(!values.run.lone_rank.empty(), "--lone-rank", "what fits is found on a virtual machine");
  refuse(values.memory && target.kind() == DeviceKind::cuda, "--memory", "a GPU has what it has");
}

/// Of each rank. More than there is would let the processor take it all before it is known.
int64_t memory_of(const LongestValues& values, const Target& target, const RunConfig& run) {
  const int64_t there = target.memory_of_rank(run);
  const int64_t memory = values.memory.value_or(there);
  if (!target.simulated() && memory > there)
    throw InputError(fmt::format(
        "--memory is {}, and {} can give each rank {} now; give less, or use --on virtual",
        format_bytes(memory).text(), target.on(), format_bytes(there).text()));
  return memory;
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
  const Target target = values.run.target();
  refuse_what_is_searched(values, target);
  RunFlags flags = values.run;
  // Whatever is wrong with the model's own length is not asked.
  flags.model.sequence = StepOf{flags.config, {}}.granularity() * flags.model.scale;
  const TrainingRun run = flags.run(target);
  const StepOf step{run.config, run.train.optimizer};
  catch_interrupts();
  const int64_t memory = memory_of(values, target, run.config);
  LongestReport report{.step = step,
                       .on = target.on(),
                       .device = target.device(),
                       .memory = memory,
                       .longest = longest_sequence(step, target.counterpart(memory)),
                       .tried = {},
                       .command = "frugal longest " + values.run.text_of(run, target)};
  if (values.memory) report.command += fmt::format(" --memory {}", memory);
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
  fmt::print("{}", values.format == "json"       ? report.json().dump(2) + "\n"
                   : values.format == "csv"      ? report.table().csv()
                   : values.format == "markdown" ? report.table().markdown()
                                                 : report.table().text());
  if (report.confirmed()) return Exit::done;
  fmt::print(stderr, "frugal: {} has not done as its virtual counterpart\n", target.on());
  return Exit::claim_failed;
}

}  // namespace

void add_longest(Program& program) {
  const auto values = std::make_shared<LongestValues>();
  Flags flags = program.command(
      "longest",
      "The longest sequence that your own configuration can be trained on, and what takes the "
      "memory",
      [values] { return longest(*values); });
  values->run.add_to(flags);
  flags.bytes("--memory", values->memory,
              "Memory of each rank, such as 2GiB, instead of the machine's; on virtual and cpu");
  flags.choice("--format", values->format, {"table", "json", "csv", "markdown"},
               "How to print it on stdout");
}

}  // namespace frugal
