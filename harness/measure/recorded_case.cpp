#include "harness/measure/recorded_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/stored_weights.h"
#include "engine/schedule/text.h"
#include "harness/measure/runs/training.h"
#include "harness/place/processes.h"
#include "harness/record/record_file.h"
#include "harness/settings/field.h"
#include "harness/settings/paths.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

const std::string* recorded_option(const Record& record, const std::string& name) {
  const auto found = record.options.find(name);
  return found == record.options.end() ? nullptr : &found->second;
}

/// Settings of these fields that the record's options have, by the same keys.
RunSettings recorded_settings(const Record& record, const std::vector<Section>& groups) {
  nlohmann::json given = nlohmann::json::object();
  for (const Field& field : fields()) {
    const std::string* const text = recorded_option(record, field.key);
    if (text == nullptr || field.file != NamesFile::no) continue;
    if (std::find(groups.begin(), groups.end(), field.section) == groups.end()) continue;
    if (field.key == "eval_every" && *text == "0") continue;  // at the end alone
    given[field.key] = field.type.value(fmt::format("its option {}", field.key), *text);
  }
  return settings_of(given);
}

/// A name without the hash that distinguishes a machine from others of its name.
std::string without_hash(const std::string& name) { return name.substr(0, name.find('#')); }

/// The machine that the record holds under this key; none where the program has it. `label` is its
/// name there.
std::optional<Machine> held_machine(const Record& record, const char* key,
                                    const std::string& label) {
  const auto found = record.files.find(key);
  if (found != record.files.end())
    return parse_machine(found->second, fmt::format("files.{} of the record", key));
  if (label.find('#') == std::string::npos) return std::nullopt;
  throw InputError(fmt::format(
      "the program that made it did not record the machine {}; give its command with the machine's "
      "file",
      label));
}

TargetOptions recorded_place(const Record& record) {
  TargetOptions place = recorded_settings(record, {Section::place}).place;
  place.on = without_hash(record.on);
  if (recorded_option(record, "pinned") != nullptr) place.pinning = Pinning::cores;
  place.machine = held_machine(record, file_key::machine, record.on);
  if (record.modelled) {
    place.lone_rank = without_hash(record.modelled->machine);
    place.links = held_machine(record, file_key::links, record.modelled->machine);
  }
  return place;
}

TimingPlan recorded_timing(const Record& record) {
  TimingPlan timing;
  timing.order_seed = record.order_seed;
  timing.steady = recorded_option(record, turns_option) != nullptr;
  for (const StoppingRule& rule : stopping_rules()) {
    const std::string name(rule.name);
    const std::string* const wanted = recorded_option(record, name);
    if (wanted == nullptr) continue;
    timing.stop = rule.name;
    if (name == "samples")
      timing.samples = whole_number(1, 1000000).value("its option samples", *wanted).get<int>();
    else
      timing.precision = real_number(0, 1).value("its option " + name, *wanted).get<double>();
  }
  return timing;
}

[[noreturn]] void refuse_other(const char* flag, const std::string& file, const std::string& now,
                               const std::string& recorded) {
  throw InputError(
      fmt::format("{} {} is not the file that it had: {}, and then {}", flag, file, now, recorded));
}

/// The text and the weights, of which the record has hashes.
void give_files(const Record& record, const UsersFiles& files, Training& training) {
  const std::string *const text = recorded_option(record, "text"), *const weights = recorded_option(
                                                                       record, "weights");
  if (text != nullptr && files.text.empty())
    throw InputError(
        fmt::format("its text is a file of which it has the hash: {}; give --text FILE", *text));
  if (weights != nullptr && files.weights.empty())
    throw InputError(
        fmt::format("the weights that it began with are a file of which it has the {}; give "
                    "--load-weights FILE",
                    *weights));
  if (text != nullptr) {
    training.text = Text::from_file(files.text, record.config);
    training.text_name = text->substr(0, text->find(", hash "));
  }
  if (weights != nullptr)
    training.weights = std::make_shared<StoredWeights>(files.weights, record.config.model);
  const auto now = options_of(training, record.config);
  if (text != nullptr && now.at("text") != *text)
    refuse_other("--text", files.text, now.at("text"), *text);
  if (weights != nullptr && now.at("weights") != *weights)
    refuse_other("--load-weights", files.weights, now.at("weights"), *weights);
}

Training training_of(const Record& record, const UsersFiles& files) {
  if (recorded_option(record, "resumed") != nullptr)
    throw InputError(
        "it went on from a checkpoint (--resume), which no record holds; run the whole training");
  const RunSettings settings = recorded_settings(
      record, {Section::memory, Section::training, Section::steps, Section::evaluation});
  Training training{.train = settings.train,
                    .eval_every = settings.eval_every,
                    .last_words = settings.last_words,
                    .checkpoint_every = settings.checkpoint_every};
  if (recorded_option(record, "schedule_file") != nullptr) {
    const auto text = record.files.find(file_key::schedule);
    if (text == record.files.end())
      throw InputError(
          "the program that made it did not record its schedule; give its command with the file");
    training.own =
        OwnSchedule{schedule_from_text(text->second, "files.schedule of the record"), text->second};
  }
  give_files(record, files, training);
  return training;
}

/// Workload of a record that is no case of a benchmark.
Workload workload_of(const Record& record, const UsersFiles& files) {
  if (record.what == what_of(Training{})) return training_of(record, files);
  OptimizerOptions optimizer = default_optimizer(record.config);
  optimizer.kind = recorded_settings(record, {Section::training}).train.optimizer.kind;
  std::vector<Workload> known = {workload::StepMemory{}, workload::LongestSequence{optimizer}};
  for (const Module module : {Module::layer, Module::mlp, Module::output_layer}) {
    known.emplace_back(workload::ModuleMemory{module});
    known.emplace_back(workload::ModuleTime{module});
  }
  for (const Workload& workload : known)
    if (what_of(workload) == record.what) return workload;
  throw InputError(fmt::format("this program measures no \"{}\"", record.what));
}

Case benchmark_case(const Record& record, const std::string& on, const Benchmarks& benchmarks) {
  for (const Benchmark* benchmark : benchmarks) {
    if (benchmark->artifact() != record.artifact) continue;
    // A place of the case's own is not to be given.
    for (const std::string& place : {std::string(), on}) {
      for (Case& c : cases_of(*benchmark, place, ""))
        if (c.id == record.case_id && c.on == on) return std::move(c);
    }
    throw InputError(fmt::format("the benchmark {} of this program has no case {} on {}",
                                 benchmark->name, record.case_id, on));
  }
  throw InputError(fmt::format("this program runs no {}", record.artifact));
}

/// Position of `frugal` in a record's command, behind variables and what starts processes.
size_t command_begin(const Record& record) {
  const size_t begin = record.command.find("frugal ");
  return begin == std::string::npos ? 0 : begin;
}

/// Throws InputError where this process was not started as those that made the record.
void check_started(const Record& record, const TargetOptions& place) {
  const bool processes = place.ranks == RanksAs::processes;
  if (processes && Processes::here() == nullptr)
    throw InputError(fmt::format("its ranks were processes; start as many: {}frugal rerun ...",
                                 record.command.substr(0, command_begin(record))));
  if (!processes && Processes::here() != nullptr)
    throw InputError("its ranks were threads of one process; start it without a launcher");
}

/// Throws InputError where variables of the environment are others.
void check_variables(const Record& record, const Target& target) {
  const std::string then = command_prefix(record.options);
  const std::string now = command_prefix(target.options(record.config.type));
  if (then == now) return;
  throw InputError(then.empty() ? fmt::format("it was made without {}; unset that",
                                              now.substr(0, now.size() - 1))
                                : fmt::format("it was made with {}; give that before the command",
                                              then.substr(0, then.size() - 1)));
}

}  // namespace

RecordedCase recorded_case(const Record& record, const Benchmarks& benchmarks,
                           const UsersFiles& files) {
  RecordedCase found{
      .again = {}, .place = recorded_place(record), .timing = recorded_timing(record)};
  check_started(record, found.place);
  const std::string& on = found.place.on;
  if (record.what == what_of(workload::Benchmark{})) {
    found.again = benchmark_case(record, on, benchmarks);
  } else {
    found.again = {.id = record.case_id,
                   .config = record.config,
                   .workload = workload_of(record, files),
                   .on = on};
  }
  found.again.lone_rank = found.place.lone_rank;
  found.again.scale = record.scale;
  found.again.command = record.command.substr(command_begin(record));
  const auto target = make_target(found.place);
  check_variables(record, *target);
  if (const std::string why = target->why_not(record.config); !why.empty()) throw InputError(why);
  return found;
}

std::string rerun_command(const Record& record) {
  std::string command = fmt::format(
      "frugal rerun {}", shell_word(fmt::format("{}#{}", RecordFile::name, record.case_id)));
  if (const std::string* const text = recorded_option(record, "text"))
    command += " --text " + shell_word(text->substr(0, text->find(", hash ")));
  if (recorded_option(record, "weights") != nullptr) command += " --load-weights FILE";
  return command;
}

}  // namespace frugal::harness
