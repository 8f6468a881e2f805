#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/cli/files.h"
#include "harness/cli/program.h"
#include "harness/cli/run_flags.h"
#include "harness/cli/weights_flags.h"
#include "harness/environment.h"
#include "harness/interrupt.h"
#include "harness/last_words.h"
#include "harness/measurement.h"
#include "harness/record_file.h"
#include "harness/runner.h"
#include "harness/work_report.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

struct MeasureValues {
  RunFlags run;
  WeightsFlags weights;
  std::string out = "out", format = "table";
  std::optional<int64_t> eval_every;
  int64_t last_words = 0;
  bool force = false, operations = false;
};

void check_last_words(const TrainingRun& run, const Target& target) {
  if (run.last_words == 0) return;
  if (!run.text) throw InputError("--last-words: they are a text's; give --text, or leave it out");
  if (target.simulated())
    throw InputError("--last-words: a virtual device tells nothing; use --on cpu or cuda");
  (void)LastWords(*run.text, run.config, run.last_words);  // says what is wrong with it
}

/// The run, and what this command alone does with it.
TrainingRun run_of(const MeasureValues& values, const Target& target) {
  TrainingRun run = values.run.run(target);
  run.eval_every = values.eval_every.value_or(0);
  if (run.own && run.eval_every % run.own->schedule.batches != 0)
    throw InputError(fmt::format(
        "--eval-every is {}, and the {} batches of --schedule-file are trained in one go; give a "
        "multiple of {}",
        run.eval_every, run.own->schedule.batches, run.own->schedule.batches));
  if (values.eval_every && !run.text)
    throw InputError("--eval-every: held-out losses are a text's; give --text, or leave it out");
  run.last_words = values.last_words;
  check_last_words(run, target);
  // What is read is there already, and refused as such.
  std::vector<FlagFile> outputs = values.weights.outputs();
  outputs.push_back({"--out", (std::filesystem::path(values.out) / RecordFile::name).string()});
  check_distinct(outputs, {});
  values.weights.put_into(run, target);
  return run;
}

Record blank(const MeasureValues& values, const TrainingRun& run, const Target& target) {
  Record record;
  record.artifact = "measure";
  record.case_id = run.config.model.name;
  record.what = "training";
  record.source = target.source();
  record.on = target.on();
  record.device = target.device(run.config);
  record.modelled = target.modelled();
  record.scale = values.run.model.scale;
  record.machine = target.machine_hash();
  record.config = run.config;
  record.options = options_of(run);
  if (target.kind() == DeviceKind::cpu)
    record.options["threads"] = std::to_string(target.threads());
  if (run.text) {
    const int64_t evaluated = run.text->held_out_microbatches(held_out_tokens) *
                              run.config.micro_batch * run.config.model.sequence;
    record.options["text"] = fmt::format("{}, hash {}, {} training bytes, {} held out",
                                         file_name(values.run.text), hash_of(run.text->bytes()),
                                         run.text->training_bytes(), run.text->held_out_bytes());
    record.options["held_out_bytes_evaluated"] = std::to_string(evaluated);
  }
  record.options.merge(target.options(run.config.type));
  record.fingerprint = fingerprint_of(record);
  record.command =
      command_prefix(record.options) + "frugal measure " + values.run.text_of(run, target);
  record.command += values.weights.text();
  if (values.eval_every) record.command += fmt::format(" --eval-every {}", *values.eval_every);
  if (values.last_words > 0) record.command += fmt::format(" --last-words {}", values.last_words);
  return record;
}

/// Every step's work, and one record that says how it ended.
void run_and_record(const TrainingRun& run, Target& target, Record& record, RecordFile& file) {
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
      progress.finished(fmt::format("step {}", step), outcome);
    });
  } catch (const Interrupted&) {
    end();
    throw;
  }
  end();
}

Exit measure(const MeasureValues& values) {
  Target target = values.run.target();
  const TrainingRun run = run_of(values, target);
  Record record = blank(values, run, target);
  RecordFile file(values.out);
  catch_interrupts();
  RunFlags::warn(run);
  if (values.force) file.set_aside();
  const Record* before = values.weights.saves() ? nullptr : last_final(file.records(), record);
  if (before != nullptr) {
    fmt::print(stderr, "already recorded in {}/{}; --force runs it again\n", values.out,
               RecordFile::name);
    record = *before;
  } else {
    run_and_record(run, target, record, file);
  }
  fmt::print("{}", values.format == "json" ? to_json(record).dump(2) + "\n"
                                           : measurement_table(record).text());
  if (values.operations && values.format == "table" && record.work)
    fmt::print("\n{}", operations_table(*record.work).text());
  if (!record.ok()) fmt::print(stderr, "frugal: {}\n", record.reason);
  return exit_of(record.status);
}

}  // namespace

void add_measure(Program& program) {
  const auto values = std::make_shared<MeasureValues>();
  Flags flags = program.command("measure", "Train your own configuration and record what it takes",
                                [values] { return measure(*values); });
  values->run.add_to(flags);
  flags.integer("--eval-every", values->eval_every, 1,
                "Steps between held-out losses; always at the end");
  flags.integer("--last-words", values->last_words, 0,
                "Passages of the held-out text whose last word is asked for at the end");
  values->weights.add_to(flags);
  flags.text("--out", values->out, "DIR", "Folder for records.jsonl");
  flags.choice("--format", values->format, {"table", "json"}, "How to print the record on stdout");
  flags.toggle("--operations", values->operations,
               "Print how often each operation was made in a step, and the bytes that it moves");
  flags.toggle("--force", values->force, "Run again what is recorded; old records are kept aside");
}

}  // namespace frugal
