#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "harness/calibrate/prediction.h"
#include "harness/cli/command_line.h"
#include "harness/cli/machine_flags.h"
#include "harness/cli/record_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runner.h"
#include "harness/place/environment.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

struct PredictValues {
  std::vector<std::string> names;
  MachineFlags machine;
  RecordFlags records;
};

/// Throws InputError where no artifact has a case that a GPU runs.
std::vector<std::vector<Case>> cases_of(const Artifacts& artifacts, const Machine& machine) {
  std::vector<std::vector<Case>> cases;
  std::vector<std::string> names;
  bool any = false;
  for (const Artifact* artifact : artifacts) {
    cases.push_back(predicted_cases(*artifact, machine));
    names.push_back(artifact->id());
    any = any || !cases.back().empty();
  }
  if (!any)
    throw InputError(
        fmt::format("{}: no GPU runs a case of it, so there is nothing to predict; name others "
                    "(`frugal list` has all)",
                    fmt::join(names, ", ")));
  return cases;
}

Exit predict(const PredictValues& values, const Artifacts& all) {
  const Artifacts artifacts = select_artifacts(all, values.names);
  const std::string named = values.machine.name();
  const Machine machine = find_machine(named);
  const auto cases = cases_of(artifacts, machine);
  size_t total = 0;
  for (const auto& of_artifact : cases) total += of_artifact.size();
  values.records.check(cases);
  catch_interrupts();
  Progress progress(total);
  RecordFile file = values.records.open(progress);

  std::vector<Record> records;
  Exit worst = Exit::done;
  for (size_t i = 0; i < artifacts.size(); ++i) {
    const std::string id = artifacts[i]->id();
    Runner runner(file, progress,
                  {.place = {.threads = usable_processors(), .machine = machine},
                   .command = fmt::format("frugal predict {} --hardware {}", id,
                                          shell_word(file_name(named))),
                   .rerun = values.records.rerun});
    const Records made = runner.run(id, cases[i]);
    for (const Record& record : made.all()) {
      if (record.status != Status::oom || !artifacts[i]->expects_oom())
        worst = std::max(worst, exit_of(record.status));
      records.push_back(record);
    }
  }
  progress.finish();
  fmt::print("{}", prediction_table(records).text());
  return worst;
}

}  // namespace

void add_predict(CommandLine& line) {
  const auto values = std::make_shared<PredictValues>();
  Flags flags = line.command(
      "predict",
      "What a described GPU should measure: the cases that `reproduce --on cuda` runs on one GPU, "
      "on that machine virtually",
      [values, &line] { return predict(*values, line.artifacts()); });
  flags.positional("ARTIFACT", values->names, "Ids, globs, or a paper's id for all of it", true);
  values->machine.add_to(flags, "The machine with that GPU");
  values->records.add_to(flags);
}

}  // namespace frugal::harness
