#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include "engine/checkpoint/serial_parameters.h"
#include "harness/cli/command_line.h"
#include "harness/cli/run_flags.h"
#include "harness/cli/training_case.h"
#include "harness/import/argument_list.h"
#include "harness/import/imported.h"
#include "harness/measure/interrupt.h"
#include "harness/measure/runner.h"
#include "harness/report/commands/import_report.h"
#include "harness/settings/resolve.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

constexpr const char* detected = "detected";

struct ImportValues {
  RunFlags run{{},
               {"on", "hardware", "model", "vocabulary_size", "sequence_length",
                "tensor_parallel_size", "pipeline_parallel_size", "stage_layers", "microbatch_size",
                "type", "recompute", "attention", "program"},
               RunFlags::Besides::nothing};
  std::vector<std::string> source, assignments;
  std::string from = detected, format = "table";
  std::optional<int64_t> ranks, launch, global_batch;
  bool ignore_unknown = false;
};

/// Clusters that are described, in the order in which they came.
constexpr std::array clusters = {"a100-selene", "h100-dgx", "h200-hgx", "b200-dgx"};

ImportOptions import_options(const ImportValues& values) {
  ImportOptions options{.variables = {},
                        .launch = values.launch,
                        .ranks = values.ranks,
                        .global_batch = values.global_batch,
                        .given = values.run.given()};
  for (const std::string& assignment : values.assignments) {
    const size_t equals = assignment.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw InputError(fmt::format(
          "--set is \"{}\"; it must be NAME=VALUE, a variable of the script", assignment));
    options.variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  // What says where it is run is no part of what is imported.
  for (const Field& field : fields())
    if (field.section == Section::place) options.given.erase(field.key);
  return options;
}

Imported imported_of(const ImportValues& values) {
  const ImportOptions options = import_options(values);
  const std::string& first = values.source.front();
  if (first.starts_with("--")) {
    if (values.from != detected && values.from != "megatron")
      throw InputError(fmt::format(
          "--from is {}, and arguments stand behind --, which are Megatron-LM's; give a file",
          values.from));
    return import_megatron(arguments_of(values.source, "behind --"), "behind --", options);
  }
  if (values.source.size() > 1)
    throw InputError(fmt::format("\"{}\" stands behind {}; give one file, or arguments behind --",
                                 values.source[1], first));
  const bool piped = first == "-";
  const std::filesystem::path model = std::filesystem::path(first) / "config.json";
  const std::string file = std::filesystem::exists(model) ? model.string() : first;
  const std::string text =
      piped ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_text(file);
  const std::string name = piped ? "stdin" : file;
  Imported imported = import_configuration(
      values.from == detected ? import_format_of(text, name) : values.from, text, name, options);
  if (!piped && !imported.given.contains("model") && !imported.given.contains("name"))
    imported.given["name"] = std::filesystem::path(first).stem().string();
  return imported;
}

/// Runs it there, without a file of records: `command` of the report makes one.
void run_there(const RunSettings& settings, const Target& target, ImportReport& report) {
  const TrainingRun run = training_run(settings, target);
  const Case c = training_case(settings, run, target);
  report.command = c.command;
  report.parameters = parameter_count(run.config.model);
  report.capacity = target.memory_of_rank(run.config);
  RecordFile none;
  Progress silent;
  Runner runner(none, silent, {.place = place_of(settings)});
  report.records = runner.run("measure", {c}).all();
}

/// On the first cluster that it fits, or the last.
void run_virtually(const Imported& imported, const nlohmann::json& place, ImportReport& report) {
  nlohmann::json given = imported.given;
  given.update(place);
  for (const char* cluster : clusters) {
    const bool chosen = place.contains("on") || place.contains("hardware");
    if (!chosen) given["on"] = fmt::format("virtual:{}", cluster);
    const RunSettings settings = settings_of(given);
    const auto target = target_of(settings);
    if (!target->simulated())
      throw InputError(fmt::format(
          "--on is {}, and what is imported is run virtually; give --on virtual:MACHINE, or "
          "leave it out, and run there the command that is printed",
          settings.place.on));
    run_there(settings, *target, report);
    if (chosen || report.records.front().status != Status::oom) return;
  }
}

/// Why it cannot be run; empty where it can.
std::string obstacle(const Imported& imported, const ImportValues& values) {
  if (!imported.other_model.empty())
    return fmt::format("it trains another model than frugal has: {}", imported.other_model.front());
  if (imported.unknown.empty() || values.ignore_unknown) return "";
  std::vector<std::string> names;
  for (const Imported::Part& part : imported.unknown) names.push_back(part.said);
  return fmt::format(
      "{} not known and may change the model: {}; correct {}, or give --ignore-unknown",
      names.size() == 1 ? "a part is" : "parts are", fmt::join(names, ", "),
      names.size() == 1 ? "it" : "them");
}

Exit import_and_run(const ImportValues& values) {
  const Imported imported = imported_of(values);
  nlohmann::json place = values.run.given();
  for (const Field& field : fields())
    if (field.section != Section::place) place.erase(field.key);
  ImportReport report{
      .imported = imported, .command = {}, .not_run = obstacle(imported, values), .records = {}};
  catch_interrupts();
  if (report.not_run.empty()) try {
      run_virtually(imported, place, report);
    } catch (const InputError& error) {
      report.not_run = error.what();
    }
  fmt::print("{}",
             values.format == "json" ? report.json().dump(2) + "\n" : report.in(values.format));
  std::fflush(stdout);  // what could be read stands before why it is not run
  if (report.not_run.empty()) return exit_of(report.records.front().status);
  fmt::print(stderr, "frugal: not run: {}\n", report.not_run);
  return Exit::bad_input;
}

}  // namespace

void add_import(CommandLine& line) {
  const auto values = std::make_shared<ImportValues>();
  Flags flags = line.command("import",
                             "What it takes to train as another program's configuration says: "
                             "Megatron-LM's arguments, torchtitan's TOML, "
                             "DeepSpeed's JSON (docs/exchange.md)",
                             [values] { return import_and_run(*values); });
  flags.positional(
      "FILE", values->source,
      "A script or list of arguments, a configuration, or - for stdin; or arguments behind --",
      true);
  std::vector<std::string> formats = import_formats();
  formats.insert(formats.begin(), detected);
  flags.choice("--from", values->from, formats, "Whose it is");
  flags.texts("--set", values->assignments, "NAME=VALUE",
              "A variable of the script, instead of its own; as often as needed");
  flags.integer("--launch", values->launch, 1, "Which of a script's launches, from 1 on", 1 << 20);
  flags.integer("--world-size", values->ranks, 1, "Ranks that take part, where it does not say so",
                1 << 24);
  flags.integer("--global-batch-size", values->global_batch, 1,
                "Sequences of a step, of all replicas, where it does not say so, or instead of it",
                int64_t{1} << 40);
  values->run.add_to(flags);
  flags.toggle("--ignore-unknown", values->ignore_unknown,
               "Run without parts that are not known; they may change the model");
  flags.choice("--format", values->format, {"table", "json", "markdown"}, "How to print it");
}

}  // namespace frugal::harness
