#include "harness/measure/new_record.h"

#include <fmt/format.h>

#include "harness/measure/recorded_case.h"
#include "harness/measure/runs/training.h"
#include "harness/place/machine_label.h"
#include "harness/place/processes.h"

namespace frugal::harness {
namespace {

/// How many rounds there are to be, in the terms of the plan's rule.
std::string wanted(const TimingPlan& timing) {
  return timing.stop == "samples" ? std::to_string(timing.samples)
                                  : fmt::format("{}", timing.precision);
}

std::map<std::string, std::string> options_of(const Case& c, const Target& target,
                                              const TimingPlan& timing) {
  std::map<std::string, std::string> options = target.options(c.config.type);
  if (!rounds_of(c).empty()) {
    options[std::string(timing.stop)] = wanted(timing);
    if (timing.steady) options[turns_option] = steady_turns;
  }
  if (is_timed(c.workload) && target.threads())
    options["threads"] = std::to_string(*target.threads());
  if (c.observes<workload::StepMemory>() && target.simulated() && target.links() == nullptr)
    options["memory"] = counted_without_limit;
  if (const auto* longest = std::get_if<workload::LongestSequence>(&c.workload))
    options["optimizer"] = name_of(longest->optimizer.kind);
  if (const auto* training = std::get_if<Training>(&c.workload))
    options.merge(options_of(*training, c.config));
  if (const auto* benchmark = std::get_if<workload::Benchmark>(&c.workload))
    options.insert(benchmark->axes.begin(), benchmark->axes.end());
  return options;
}

/// What starts the command, where ranks are processes.
std::string launcher(const Record& record) {
  const bool processes = record.options.contains(ranks_option) && Processes::here() != nullptr;
  return processes ? Processes::here()->launcher() : "";
}

/// Texts of what decides the case and no program has.
std::map<std::string, std::string> held_files(const Case& c, const Target& target) {
  std::map<std::string, std::string> files;
  if (target.machine() && !is_known(*target.machine()))
    files[file_key::machine] = file_of(*target.machine());
  if (target.links() != nullptr && !is_known(*target.links()))
    files[file_key::links] = file_of(*target.links());
  const auto* const training = std::get_if<Training>(&c.workload);
  if (training != nullptr && training->own) files[file_key::schedule] = training->own->text;
  return files;
}

/// Command that reproduces a record: `frugal rerun` where the record holds files, because the files
/// that the original command names may be gone.
std::string reproducing_command(const Record& record, const Case& c, const std::string& command) {
  if (!record.files.empty()) return rerun_command(record);
  return c.command.empty() ? command : c.command;
}

}  // namespace

Record new_record(const std::string& artifact, const Case& c, const Target& target,
                  const TimingPlan& timing, const std::string& command) {
  const bool has_model = !c.observes<workload::Benchmark>() || has_configuration(c.config);
  if (c.skip.empty() && has_model) c.config.validate();
  Record record;
  record.artifact = artifact;
  record.case_id = c.id;
  record.what = what_of(c.workload);
  record.source = target.source();
  record.on = target.on();
  record.device = target.device(c.config);
  record.modelled = target.modelled();
  record.machine = target.machine_hash();
  record.scale = c.scale;
  record.config = c.config;
  record.options = options_of(c, target, timing);
  record.fingerprint = fingerprint_of(record);
  // Other hosts have other processors, and what is recorded the first process knows.
  if (Processes* const processes = Processes::here())
    record.fingerprint = processes->of_first(record.fingerprint);
  record.files = held_files(c, target);
  record.command =
      command_prefix(record.options) + launcher(record) + reproducing_command(record, c, command);
  record.reason = c.skip.empty() ? target.why_not(c.config) : c.skip;
  if (!record.reason.empty()) record.status = Status::skipped;
  return record;
}

}  // namespace frugal::harness
