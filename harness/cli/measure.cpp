#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/cli/files.h"
#include "harness/cli/program.h"
#include "harness/cli/run_flags.h"
#include "harness/cli/weights_flags.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/last_words.h"
#include "harness/measure/runner.h"
#include "harness/place/environment.h"
#include "harness/record/record_file.h"
#include "harness/report/measurement.h"
#include "harness/report/work_report.h"
#include "harness/settings/paths.h"
#include "harness/settings/resolve.h"
#include "harness/settings/said.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

std::vector<FieldGroup> groups_of_measure() {
  std::vector<FieldGroup> groups = groups_of_a_training;
  groups.push_back(FieldGroup::evaluation);
  return groups;
}

struct MeasureValues {
  RunFlags run{groups_of_measure()};
  WeightsFlags weights;
  std::string out = "out", format = "table";
  bool force = false, operations = false;
};

/// One configuration, on the way to its record.
struct Measured {
  RunSettings settings;
  Target target;
  TrainingRun run;
  Record record;
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
  if (settings.is_said("eval_every") && !run.text)
    throw InputError("--eval-every: held-out losses are a text's; give --text, or leave it out");
}

/// The run, and what this command alone does with it.
TrainingRun run_of(const MeasureValues& values, const RunSettings& settings, const Target& target) {
  TrainingRun run = training_run(settings, target);
  run.eval_every = settings.eval_every;
  check_evaluation(settings, run);
  run.last_words = settings.last_words;
  check_last_words(run, target);
  // What is read is there already, and refused as such.
  std::vector<FlagFile> outputs = values.weights.outputs();
  outputs.push_back({"--out", (std::filesystem::path(values.out) / RecordFile::name).string()});
  check_distinct(outputs, {});
  if (!settings.load_weights.empty()) load_weights(settings.load_weights, run, target);
  values.weights.put_into(run, target);
  return run;
}

void describe_text(const RunSettings& settings, const TrainingRun& run, Record& record) {
  if (!run.text) return;
  const int64_t evaluated = run.text->held_out_microbatches(held_out_tokens) *
                            run.config.micro_batch * run.config.model.sequence;
  record.options["text"] = fmt::format("{}, hash {}, {} training bytes, {} held out",
                                       file_name(settings.text), hash_of(run.text->bytes()),
                                       run.text->training_bytes(), run.text->held_out_bytes());
  record.options["held_out_bytes_evaluated"] = std::to_string(evaluated);
}

Record blank(const RunSettings& settings, const TrainingRun& run, const Target& target) {
  Record record;
  record.artifact = "measure";
  record.case_id = run.config.model.name.empty() ? "model" : run.config.model.name;
  record.what = "training";
  record.source = target.source();
  record.on = target.on();
  record.device = target.device(run.config);
  record.modelled = target.modelled();
  record.scale = settings.scale;
  record.machine = target.machine_hash();
  record.config = run.config;
  record.options = options_of(run);
  if (target.kind() == DeviceKind::cpu)
    record.options["threads"] = std::to_string(target.threads());
  describe_text(settings, run, record);
  record.options.merge(target.options(run.config.type));
  record.fingerprint = fingerprint_of(record);
  record.command =
      command_prefix(record.options) + "frugal measure" + command_flags(settings, run, target);
  return record;
}

/// One of several configurations. Where it breaks a rule it is skipped, with the rule.
Measured measured(const MeasureValues& values, const nlohmann::json& said, bool alone) {
  RunSettings settings = settings_of(said);
  Target target = target_of(settings);
  try {
    TrainingRun run = run_of(values, settings, target);
    Record record = blank(settings, run, target);
    return {std::move(settings), std::move(target), std::move(run), std::move(record)};
  } catch (const InputError& error) {
    if (alone) throw;
    TrainingRun run;
    run.config = settings.config;
    run.config.model = unscaled_model(settings);
    run.train = settings.train;
    Record record = blank(settings, run, target);
    record.status = Status::skipped;
    record.reason = error.what();
    return {std::move(settings), std::move(target), std::move(run), std::move(record)};
  }
}

/// All configurations. Throws InputError where none can be run.
std::vector<Measured> all_measured(const MeasureValues& values, const nlohmann::json& said) {
  std::vector<Measured> all;
  const std::vector<nlohmann::json> each = combinations(said);
  if (each.size() > 1 && (values.weights.saves() || values.operations))
    throw InputError(fmt::format("{}: of one configuration, and there are {}; leave it out",
                                 values.operations             ? "--operations"
                                 : values.weights.save.empty() ? "--save-tensors"
                                                               : "--save-weights",
                                 each.size()));
  for (const nlohmann::json& one : each) all.push_back(measured(values, one, each.size() == 1));
  if (std::all_of(all.begin(), all.end(),
                  [](const Measured& m) { return m.record.status == Status::skipped; }))
    throw InputError(all.front().record.reason);
  return all;
}

/// Every step's work, and one record that says how it ended. `name` stands before each step.
void run_and_record(const std::string& name, const TrainingRun& run, Target& target, Record& record,
                    RecordFile& file) {
  Progress progress(static_cast<size_t>(run.train.steps));
  record.started = utc_now();
  record.environment = environment(target.kind()).dump();
  const auto end = [&] {
    record.ended = utc_now();
    record.environment = ended(record.environment);
    file.append(record);
  };
  try {
    run_training(run, target, record, [&](int64_t step, const std::string& outcome) {
      progress.finished(fmt::format("{}step {}", name, step), outcome);
    });
  } catch (const Interrupted&) {
    end();
    throw;
  }
  end();
}

/// "tensor_parallel_size 2, recompute none: "; empty where there is one configuration.
std::string name_in_sweep(const std::vector<std::string>& swept, const Measured& m) {
  std::string name;
  for (const std::string& key : swept)
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key,
                        field_of(key).type.text(m.settings.said.at(key)));
  return name.empty() ? "" : name + ": ";
}

/// Runs what is not recorded yet.
void complete(const MeasureValues& values, const std::string& name, Measured& m, RecordFile& file) {
  const Record* before = values.weights.saves() ? nullptr : last_final(file.records(), m.record);
  if (before != nullptr) {
    fmt::print(stderr, "{}already recorded in {}/{}; --force runs it again\n", name, values.out,
               RecordFile::name);
    m.record = *before;
  } else if (m.record.status == Status::skipped) {
    m.record.started = m.record.ended = utc_now();
    m.record.environment = environment(m.target.kind()).dump();
    file.append(m.record);
  } else {
    warn_of_clipping(m.run);
    run_and_record(name, m.run, m.target, m.record, file);
  }
  if (!m.record.ok()) fmt::print(stderr, "frugal: {}{}\n", name, m.record.reason);
}

Table table_of(const std::vector<std::string>& swept, const std::vector<Measured>& all) {
  if (all.size() == 1) return measurement_table(all.front().record);
  std::vector<Table::Column> columns;
  std::vector<std::vector<std::string>> labels;
  std::vector<Record> records;
  for (const std::string& key : swept) columns.push_back({key, true});
  for (const Measured& m : all) {
    labels.emplace_back();
    for (const std::string& key : swept)
      labels.back().push_back(field_of(key).type.text(m.settings.said.at(key)));
    records.push_back(m.record);
  }
  return comparison_table(columns, labels, records);
}

std::string rendered(const std::string& format, const std::vector<std::string>& swept,
                     const std::vector<Measured>& all) {
  if (format == "json") {
    nlohmann::json records = nlohmann::json::array();
    for (const Measured& m : all) records.push_back(to_json(m.record));
    return (all.size() == 1 ? records.front() : records).dump(2) + "\n";
  }
  return table_of(swept, all).in(format);
}

Exit measure(const MeasureValues& values) {
  const nlohmann::json said = values.run.said();
  const std::vector<std::string> swept = swept_keys(said);
  std::vector<Measured> all = all_measured(values, said);
  RecordFile file(values.out);
  catch_interrupts();
  if (values.force) file.set_aside();
  Exit worst = Exit::done;
  for (Measured& m : all) {
    complete(values, name_in_sweep(swept, m), m, file);
    worst = std::max(worst, exit_of(m.record.status));
  }
  fmt::print("{}", rendered(values.format, swept, all));
  const Record& first = all.front().record;
  if (values.operations && values.format == "table" && first.work)
    fmt::print("\n{}", operations_table(*first.work).text());
  return worst;
}

}  // namespace

void add_measure(Program& program) {
  const auto values = std::make_shared<MeasureValues>();
  Flags flags = program.command(
      "measure",
      "Train your own configuration and record what it takes. Lists of values, such as "
      "--tensor-parallel 1,2,4, are one configuration each, one after the other",
      [values] { return measure(*values); });
  values->run.add_to(flags);
  values->weights.add_to(flags);
  flags.text("--out", values->out, "DIR", "Folder for records.jsonl");
  flags.format(values->format,
               "How to print on stdout: a record, or a row of each configuration of several");
  flags.toggle("--operations", values->operations,
               "Print how often each operation was made in a step, and the bytes that it moves");
  flags.toggle("--force", values->force, "Run again what is recorded; old records are kept aside");
}

}  // namespace frugal
