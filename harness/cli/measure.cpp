#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/cli/command_line.h"
#include "harness/cli/files.h"
#include "harness/cli/record_flags.h"
#include "harness/cli/run_flags.h"
#include "harness/cli/training_case.h"
#include "harness/cli/weights_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/needed.h"
#include "harness/measure/runner.h"
#include "harness/measure/runs/fit_search.h"
#include "harness/measure/runs/last_words.h"
#include "harness/measure/runs/training_checkpoint.h"
#include "harness/measure/statistics.h"
#include "harness/place/processes.h"
#include "harness/record/record_file.h"
#include "harness/report/commands/work_report.h"
#include "harness/report/measurement.h"
#include "harness/settings/given.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

std::vector<Section> groups_of_measure() {
  std::vector<Section> groups = groups_of_a_training;
  groups.push_back(Section::evaluation);
  return groups;
}

struct MeasureValues {
  RunFlags run{groups_of_measure()};
  WeightsFlags weights;
  RecordFlags records;
  std::string format = "table";
  bool operations = false, fit = false;
};

/// A case of the command, and what was given to get it.
struct Asked {
  RunSettings settings;
  Case asked;
};

void check_last_words(const TrainingRun& run, const Target& target) {
  if (run.last_words == 0) return;
  if (!run.text) throw InputError("--last-words: they are a text's; give --text, or leave it out");
  if (target.simulated())
    throw InputError("--last-words: a virtual device tells nothing; use --on cpu or cuda");
  (void)LastWords(*run.text, run.config, run.last_words);  // says what is wrong with it
}

void check_evaluation(const RunSettings& settings, const TrainingRun& run) {
  if (run.own && run.eval_every % run.own->schedule.batches != 0)
    throw InputError(fmt::format(
        "--eval-every is {}, and the {} batches of --schedule-file are trained in one go; give a "
        "multiple of {}",
        run.eval_every, run.own->schedule.batches, run.own->schedule.batches));
  if (settings.is_given("eval_every") && !run.text)
    throw InputError("--eval-every: held-out losses are a text's; give --text, or leave it out");
}

void put_checkpoints(const RunSettings& settings, TrainingRun& run, const Target& target) {
  for (const auto& [flag, folder] :
       {std::pair{"--checkpoint", settings.checkpoint}, {"--resume", settings.resume}})
    if (!folder.empty()) check_values(flag, target);
  if (settings.is_given("checkpoint_every") && settings.checkpoint.empty())
    throw InputError("--every: it is how often --checkpoint writes; give that, or leave it out");
  if (!settings.resume.empty() && !settings.load_weights.empty())
    throw InputError("--load-weights: a checkpoint has the weights; leave it or --resume out");
  if (run.own && settings.checkpoint_every % run.own->schedule.batches != 0)
    throw InputError(fmt::format(
        "--every is {}, and the {} batches of --schedule-file are trained in one go; give a "
        "multiple of {}",
        settings.checkpoint_every, run.own->schedule.batches, run.own->schedule.batches));
  run.checkpoint = settings.checkpoint;
  run.checkpoint_every = settings.checkpoint_every;
  run.resume = settings.resume;
  // Before anything is written; when it is read, the files are looked at again.
  if (!run.resume.empty()) (void)find_checkpoint(run);
}

/// The run, and what this command alone does with it.
TrainingRun run_of(const MeasureValues& values, const RunSettings& settings, const Target& target) {
  TrainingRun run = training_run(settings, target);
  run.eval_every = settings.eval_every;
  check_evaluation(settings, run);
  run.last_words = settings.last_words;
  check_last_words(run, target);
  put_checkpoints(settings, run, target);
  // What is read is there already, and refused as such.
  std::vector<FlagFile> outputs = values.weights.outputs();
  outputs.push_back(
      {"--out", (std::filesystem::path(values.records.out) / RecordFile::name).string()});
  check_distinct(outputs, {});
  if (!settings.load_weights.empty()) load_weights(settings.load_weights, run, target);
  values.weights.put_into(run, target);
  return run;
}

/// One of several configurations. Where it breaks a rule it is skipped, with the rule.
Asked asked(const MeasureValues& values, const nlohmann::json& given, bool alone) {
  RunSettings settings = settings_of(given);
  const auto target = target_of(settings);
  TrainingRun run;
  std::string broken;
  try {
    run = run_of(values, settings, *target);
  } catch (const InputError& error) {
    if (alone) throw;
    run = {};
    run.config = settings.config;
    run.config.model = unscaled_model(settings);
    if (!settings.is_given("type")) run.config.type = default_type(*target);
    run.train = settings.train;
    broken = error.what();
  }
  Case c = training_case(settings, run, *target);
  c.skip = broken;
  if (broken.empty()) warn_of_clipping(run);
  return {std::move(settings), std::move(c)};
}

/// What a configuration of several has of what distinguishes them.
std::vector<std::string> values_of(const std::vector<std::string>& swept,
                                   const RunSettings& settings) {
  std::vector<std::string> values;
  for (const std::string& key : swept)
    values.push_back(field_of(key).type.text(settings.given.at(key)));
  return values;
}

/// "tensor_parallel_size 2, recompute none"; empty where there is one configuration.
std::string title_of(const std::vector<std::string>& swept, const RunSettings& settings) {
  const std::vector<std::string> values = values_of(swept, settings);
  std::string title;
  for (size_t i = 0; i < swept.size(); ++i)
    title += fmt::format("{}{} {}", i == 0 ? "" : ", ", swept[i], values[i]);
  return title;
}

/// All configurations. Throws InputError where none can be run.
std::vector<Asked> all_asked(const MeasureValues& values, const nlohmann::json& given) {
  std::vector<Asked> all;
  const std::vector<nlohmann::json> each = combinations(given);
  const char* of_one = values.operations                      ? "--operations"
                       : values.fit                           ? "--fit"
                       : !values.weights.save.empty()         ? "--save-weights"
                       : !values.weights.save_tensors.empty() ? "--save-tensors"
                       : given.contains("checkpoint")         ? "--checkpoint"
                       : given.contains("resume")             ? "--resume"
                                                              : nullptr;
  if (each.size() > 1 && of_one != nullptr)
    throw InputError(fmt::format("{}: of one configuration, and there are {}; leave it out", of_one,
                                 each.size()));
  const std::vector<std::string> swept = swept_keys(given);
  for (const nlohmann::json& one : each) {
    all.push_back(asked(values, one, each.size() == 1));
    all.back().asked.title = title_of(swept, all.back().settings);
  }
  if (std::all_of(all.begin(), all.end(), [](const Asked& a) { return !a.asked.skip.empty(); }))
    throw InputError(all.front().asked.skip);
  return all;
}

Table table_of(const std::vector<std::string>& swept, const std::vector<Asked>& all,
               const std::vector<Record>& records) {
  if (records.size() == 1) return measurement_table(records.front());
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>> labels;
  for (const std::string& key : swept) columns.push_back({key, true});
  for (const Asked& each : all) labels.push_back(values_of(swept, each.settings));
  return comparison_table(columns, labels, records);
}

/// Where processes were started that do not run the same, none would come to its end.
void check_processes_agree(const MeasureValues& values, const std::vector<Asked>& all) {
  Processes* const processes = Processes::here();
  if (processes == nullptr) return;
  nlohmann::json mine = all.front().settings.given;
  mine["program"] = program_hash();
  mine["cases"] = all.size();
  mine["rerun"] = values.records.rerun.which;
  mine["force"] = values.records.force;
  for (const Asked& each : all)
    mine.update(
        nlohmann::json(options_of(std::get<Training>(each.asked.workload), each.asked.config)));
  processes->agree(mine);
}

/// Runs what is not recorded yet. A record of each, in their order.
std::vector<Record> records_of(const MeasureValues& values, const std::vector<Asked>& all) {
  std::vector<Case> cases;
  int64_t steps = 0;
  for (const Asked& each : all) {
    cases.push_back(each.asked);
    if (each.asked.skip.empty()) steps += std::get<Training>(each.asked.workload).train.steps;
  }
  values.records.check({cases});
  catch_interrupts();
  Progress progress(static_cast<size_t>(steps));
  RecordFile file = values.records.open(progress);
  // A list of values is never of a place's fields: all run in the same one.
  Runner runner(file, progress,
                {.place = place_of(all.front().settings),
                 .timing = {},
                 .rerun = values.records.rerun,
                 .reports_steps = true});
  return runner.run("measure", cases).all();
}

/// Configurations that were found, with their changes in words; the fastest first.
using Fitting = std::vector<std::pair<std::string, Record>>;

/// Prints the configuration that was asked for, and below it those that were found instead.
void print_fit(const std::string& format, const Record& too_large, const Fitting& fitting) {
  std::vector<std::vector<std::string>> changes = {{"none"}};
  std::vector<Record> records = {too_large};
  for (const auto& [change, record] : fitting) {
    changes.push_back({change});
    records.push_back(record);
  }
  if (format == "json") {
    fmt::print("{}\n", to_json(records).dump(2));
    return;
  }
  Table table = comparison_table({{"changes"}}, changes, records);
  if (format != "table") {
    table.columns.push_back({"command"});
    for (size_t i = 0; i < records.size(); ++i) table.rows[i].push_back(records[i].command);
  }
  fmt::print("{}", table.in(format));
  for (size_t i = 1; i < records.size() && format == "table"; ++i)
    fmt::print("run: {}\n", records[i].command);
}

/// Searches what trains as this does and fits; runs and records what it finds, as its own command
/// would.
Exit fit(const MeasureValues& values, const Asked& given, const Record& too_large) {
  const auto target = target_of(given.settings);
  TrainingRun run{std::get<Training>(given.asked.workload), given.asked.config};
  Progress progress(0);
  progress.note("frugal: searching what trains the same with less memory");
  const FitSearch search =
      search_fit(run, *target, too_large.needed.value(), [&](int64_t executed) {
        progress.working_on(fmt::format("{} configurations executed", executed));
      });
  progress.finish();
  std::vector<Asked> found;
  for (const LeanerRun& leaner : search.fitting) {
    run.config = leaner.config;
    found.push_back({given.settings, training_case(given.settings, run, *target)});
    found.back().asked.title = leaner.changes;
  }
  Fitting fitting;
  if (!found.empty()) {
    MeasureValues again = values;
    again.records.force = false;  // what was asked is recorded there
    for (Record& record : records_of(again, found))
      fitting.emplace_back(search.fitting[fitting.size()].changes, std::move(record));
  }
  std::erase_if(fitting, [](const auto& each) { return !each.second.ok(); });
  std::ranges::stable_sort(
      fitting, {}, [](const auto& each) { return median(each.second.samples(metric::step_time)); });
  print_fit(values.format, too_large, fitting);
  if (!fitting.empty()) return Exit::done;
  run.config = search.closest.config;
  fmt::print(
      stderr,
      "frugal: none of {} configurations that train the same fits; the closest, with {}, {}\n",
      search.executed, search.closest.changes.empty() ? "no change" : search.closest.changes,
      in_words(needed_by(run, *target).value()));
  return Exit::out_of_memory;
}

/// Refuses --fit on a real device or with --schedule-file, before anything is run.
void check_fit(const MeasureValues& values, const RunSettings& settings) {
  if (!values.fit) return;
  if (const auto target = target_of(settings); !target->simulated())
    throw InputError(
        fmt::format("--fit: --on is {}, and the search executes steps on a machine without a limit "
                    "of memory; give --on virtual:MACHINE, then run here what it finds",
                    target->on()));
  if (!settings.schedule_file.empty())
    throw InputError(
        "--fit: the microbatches and passes of --schedule-file are fixed; leave one of them out");
}

Exit measure(const MeasureValues& values) {
  const nlohmann::json given = values.run.given();
  const std::vector<std::string> swept = swept_keys(given);
  const std::vector<Asked> all = all_asked(values, given);
  check_fit(values, all.front().settings);
  check_processes_agree(values, all);
  const std::vector<Record> records = records_of(values, all);
  Exit worst = Exit::done;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    const std::string& title = all[i].asked.title;
    worst = std::max(worst, exit_of(record.status));
    if (!record.ok() && Processes::speaks())
      fmt::print(stderr, "frugal: {}{}{}\n", title, title.empty() ? "" : ": ", record.reason);
  }
  if (values.fit && records.front().needed) return fit(values, all.front(), records.front());
  if (values.fit && worst == Exit::done) fmt::print(stderr, "frugal: it fits as it is\n");
  fmt::print("{}", values.format == "json" ? to_json(records).dump(2) + "\n"
                                           : table_of(swept, all, records).in(values.format));
  if (values.operations && values.format == "table" && records.front().work)
    fmt::print("\n{}", operations_table(*records.front().work).text());
  return worst;
}

}  // namespace

void add_measure(CommandLine& line) {
  const auto values = std::make_shared<MeasureValues>();
  Flags flags = line.command(
      "measure",
      "Train your own configuration and record what it takes. Lists of values, such as "
      "--tensor-parallel 1,2,4, are one configuration each, one after the other",
      [values] { return measure(*values); }, CommandLine::Ranks::threads_or_processes);
  values->run.add_to(flags);
  values->weights.add_to(flags);
  values->records.add_to(flags);
  flags.format(values->format,
               "How to print on stdout: a record, or a row of each configuration of several");
  flags.toggle("--operations", values->operations,
               "Print how often each operation was made in a step, and the bytes that it moves");
  flags.toggle(
      "--fit", values->fit,
      "Where memory runs out on a virtual machine, execute what trains the same with less: "
      "recomputation, sharding, offload, mini-sequences, smaller microbatches. Prints the "
      "fastest that fit");
}

}  // namespace frugal::harness
