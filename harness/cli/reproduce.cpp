#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/record_flags.h"
#include "harness/cli/timing_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runner.h"
#include "harness/place/environment.h"
#include "harness/report/verdicts.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct ReproduceValues {
  std::vector<std::string> names;
  std::string on = "both", programs = "both", format = "table";
  std::string ranks;                                      // of GPUs; empty: one alone
  int64_t scale = 0;                                      // the artifact's choice
  std::optional<int> threads;                             // all processors otherwise
  TimingPlan timing = {.budget = 45, .stop = "decided"};  // about 20 rounds of table 4 on two cores
  RecordFlags records;
  bool check = false;

  int cpu_threads() const { return threads.value_or(usable_processors()); }
  std::optional<RanksAs> gpu_ranks() const {
    return ranks.empty() ? std::nullopt : std::optional(RanksAs::threads);
  }
};

Selection selection(const ReproduceValues& values) {
  const auto among = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), values.on) != names.end();
  };
  Selection selection;
  selection.virtual_machine = among({"virtual", "both", "all"});
  selection.cpu = among({"cpu", "both", "all"});
  check_threads(values.threads, values.on, selection.cpu);
  if (selection.cpu) make_target({});  // says why it cannot be used
  if (among({"cuda", "all"})) {
    if (values.gpu_ranks()) load_kernels_at_first();
    selection.cuda = gpu_selection(gpus(), values.gpu_ranks().has_value());
  }
  if (values.scale != 0) selection.scale = values.scale;
  selection.programs = values.programs == "frugal"  ? Programs::frugal
                       : values.programs == "paper" ? Programs::papers
                                                    : Programs::both;
  return selection;
}

/// With every choice that decides the numbers, and no path.
std::string command_of(const ReproduceValues& values, const std::string& artifact, bool cpu) {
  std::string command =
      fmt::format("frugal reproduce {} --on {}", artifact, values.on) + timing_flags(values.timing);
  if (cpu) command += fmt::format(" --threads {}", values.cpu_threads());
  if (values.scale != 0) command += " --scale " + scale_name(values.scale);
  if (values.programs != "both") command += " --programs " + values.programs;
  if (!values.ranks.empty()) command += " --ranks " + values.ranks;
  return command;
}

std::string rendered(const Reproduction& reproduction, const std::string& format) {
  if (format == "json") return to_json(reproduction).dump(2) + "\n";
  if (format == "csv") return to_csv(reproduction);
  if (format == "markdown") return to_markdown(reproduction);
  return to_text(reproduction);
}

/// The cases of each artifact. Throws InputError where one is impossible, or none is possible and
/// nothing else is to be shown; `without_any` is given the artifacts that have none there.
std::vector<std::vector<Case>> plan(const Artifacts& artifacts, const Selection& selection,
                                    std::vector<std::string>& without_any) {
  std::vector<std::vector<Case>> cases;
  std::string skipped;
  bool possible = false;
  for (const Artifact* artifact : artifacts) {
    cases.push_back(artifact->cases(selection));
    if (cases.back().empty()) {
      // Some have formulas alone, or numbers that the paper prints.
      if (artifact->cells(Records()).empty())
        without_any.push_back(artifact->id());
      else
        possible = true;
    }
    for (const Case& c : cases.back()) {
      if (c.skip.empty()) c.config.validate();
      possible = possible || c.skip.empty();
      if (skipped.empty()) skipped = c.skip;
    }
  }
  if (!possible && !skipped.empty()) throw InputError("no case can be run: " + skipped);
  if (!possible)
    throw InputError(
        fmt::format("{}: nothing to run there at that scale; choose another --on "
                    "(most have cases on virtual), or leave --scale out",
                    fmt::join(without_any, ", ")));
  return cases;
}

Exit reproduce(const ReproduceValues& values, const Artifacts& all) {
  const Artifacts artifacts = select_artifacts(all, values.names);
  const Selection selected = selection(values);
  std::vector<std::string> without_any;
  const auto cases = plan(artifacts, selected, without_any);
  size_t total = 0;
  for (const auto& of_artifact : cases) total += of_artifact.size();
  values.records.check(cases);
  catch_interrupts();
  Progress progress(total);
  // Bad input has been noticed by now: from here on something is written.
  RecordFile file = values.records.open(progress);

  if (!without_any.empty())
    progress.note(fmt::format("frugal: nothing to run there for {}", fmt::join(without_any, ", ")));

  Reproduction reproduction;
  Exit worst = Exit::done;
  for (size_t i = 0; i < artifacts.size(); ++i) {
    const std::string id = artifacts[i]->id();
    Runner runner(file, progress,
                  {.place = {.threads = values.cpu_threads(), .ranks = values.gpu_ranks()},
                   .timing = values.timing,
                   .command = command_of(values, id, selected.cpu),
                   .rerun = values.records.rerun,
                   .decided = [artifact = artifacts[i]](const Records& records) {
                     Reproduction so_far;
                     so_far.add(*artifact, records);
                     return is_decided_early(so_far);
                   }});
    const Records records = runner.run(id, cases[i]);
    for (const Record& record : records.all())
      if (record.status != Status::oom || !artifacts[i]->expects_oom())
        worst = std::max(worst, exit_of(record.status));
    reproduction.add(*artifacts[i], records);
  }
  progress.finish();
  fmt::print("{}", rendered(reproduction, values.format));
  if (!values.check) return worst;
  const Check checked = check(reproduction);
  fmt::print(stderr, "{}", checked.text);
  if (worst == Exit::done && !checked.passed) return Exit::claim_failed;
  return worst;
}

}  // namespace

void add_reproduce(CommandLine& line) {
  const auto values = std::make_shared<ReproduceValues>();
  Flags flags = line.command("reproduce", "Tables and figures of a paper: its numbers beside ours",
                             [values, &line] { return reproduce(*values, line.artifacts()); });
  flags.positional("ARTIFACT", values->names, "Ids, globs, or a paper's id for all of it", true);
  flags.choice("--on", values->on, {"virtual", "cpu", "cuda", "both", "all"},
               "Where: the paper's machine, virtually; this processor; GPUs; both of the first, or "
               "all three");
  flags.choice("--programs", values->programs, {"both", "frugal", "paper"},
               "Whose behaviour virtual cases have, where the paper's program is known: its own, "
               "frugal's, or both in columns of their own (docs/programs.md)");
  flags.scale("--scale", values->scale,
              "Hidden size, sequence length and vocabulary divided by K; the artifact chooses "
              "otherwise");
  flags.format(values->format, "How to print the result on stdout; csv has the cells only");
  flags.choice(
      "--ranks", values->ranks, {"threads"},
      "On several GPUs, run all ranks of a case, as threads; without it one rank alone, whose "
      "collectives take what the links of hardware/ would");
  flags.integer("--threads", values->threads, 1,
                "Kernel threads of the cpu; all processors otherwise", 4096);
  add_timing_flags(flags, values->timing, Judges::verdicts);
  values->records.add_to(flags);
  flags.toggle(
      "--check", values->check,
      "Count the verdicts on stderr, and exit with status 1 when a claim is not reproduced and "
      "nothing explains it");
}

}  // namespace frugal::harness
