#include <fmt/format.h>

#include "harness/place/machine_label.h"
#include "harness/settings/config_json.h"
#include "harness/settings/field.h"
#include "harness/settings/paths.h"
#include "harness/settings/resolve.h"

namespace frugal::harness {
namespace {

/// " --flag text", " --switch" or " --set key=text".
std::string flag_text(const Field& field, const nlohmann::json& value) {
  const bool on = field.type.is_switch() && value == true;
  if (on && !field.flag.empty()) return " " + field.flag;
  std::string text = field.type.text(value);
  if (!field.file_of(text).empty())
    text = field.file == NamesFile::behind_colon ? without_folder(text)
           : field.file == NamesFile::perhaps    ? description_name(text)
                                                 : file_name(text);
  return field.type.is_switch() || field.flag.empty()
             ? fmt::format(" --set {}", shell_word(field.key + "=" + text))
             : fmt::format(" {} {}", field.flag, shell_word(text));
}

/// A machine that this program has goes by its name, whatever was given of it; one of a file by the
/// file. How many threads there are depends on the machine, and the type where it is not said on
/// the device.
void pin_place(RunSettings& settings, const Target& target) {
  TargetOptions& place = settings.place;
  if (target.simulated() && is_known(*target.machine())) {
    place.on = target.on();
    place.hardware.clear();
    settings.given.erase("hardware");
  }
  if (target.threads()) {
    place.threads = *target.threads();
    settings.given["threads"] = *target.threads();
  }
  settings.given["on"] = place.on;
  if (settings.config.type != default_type(target))
    settings.given["type"] = name_of(settings.config.type);
}

/// A model of a file is spelled out: its command needs no file.
void spell_model(RunSettings& settings) {
  if (field_of("model").file_of(settings.model).empty()) return;
  settings.config.model = unscaled_model(settings);
  settings.given.update(harness::to_json(settings.config.model));
  if (settings.config.model.name.empty()) settings.given.erase("name");
  settings.given.erase("model");
  settings.model.clear();
}

}  // namespace

RunSettings settings_with(RunSettings settings, const RunConfig& config) {
  ModelConfig model = settings.config.model;
  settings.config = config;
  settings.config.model = std::move(model);
  return settings;
}

std::string command_flags(const RunSettings& settings) {
  std::string flags;
  for (const Field& field : fields()) {
    const nlohmann::json value = field.get(settings);
    // Of a model's values those count that replace its own.
    const bool of_model = field.of == FieldOf::model;
    const bool changed = !of_model && value != field.usual;
    const bool is_off = !of_model && field.type.is_switch() && !changed;
    if (changed || (settings.is_given(field.key) && !is_off)) flags += flag_text(field, value);
  }
  return flags;
}

std::string command_flags(const RunSettings& settings, const TrainingRun& run,
                          const Target& target) {
  RunSettings resolved = settings_with(settings, run.config);
  resolved.train = run.train;
  // The schedule's file says these.
  if (run.own) {
    const RunConfig usual;
    resolved.config.schedule = usual.schedule;
    resolved.config.pipeline_parallel = usual.pipeline_parallel;
    resolved.config.chunks = usual.chunks;
    resolved.config.microbatches = usual.microbatches;
  }
  spell_model(resolved);
  pin_place(resolved, target);
  return command_flags(resolved);
}

std::map<std::string, std::string> about(std::string_view command, const RunSettings& settings,
                                         const TrainingRun& run, const Target& target,
                                         const std::string& more) {
  std::map<std::string, std::string> about = {
      {"command", fmt::format("{}frugal {}{}{}", command_prefix(target.options(run.config.type)),
                              command, command_flags(settings, run, target), more)},
      {"on", target.on()},
      {"device", target.device(run.config)},
      {"source", std::string(name_of(target.source()))},
      {"program", program_hash()}};
  if (run.own) about["schedule_file"] = "hash " + hash_of(run.own->text);
  return about;
}

}  // namespace frugal::harness
