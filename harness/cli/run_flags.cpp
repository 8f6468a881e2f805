#include "harness/cli/run_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/settings/given.h"
#include "kernels/support/error.h"

namespace frugal::harness {

namespace {

/// Takes a model that a file describes for one of its name: flags replace its values or, with
/// --model, all of it.
void replace_described(const nlohmann::json& given, nlohmann::json& in_file) {
  if (in_file.contains("model")) return;
  const ModelConfig described = settings_of(combinations(in_file).front()).config.model;
  const bool is_whole = described.layers > 0 && described.hidden > 0 && described.heads > 0;
  if (!is_whole) return;
  if (given.contains("model")) {
    for (const Field& field : fields())
      if (field.of == FieldOf::model) in_file.erase(field.key);
    return;
  }
  for (const nlohmann::json& one : combinations(given))
    if (const std::string name = with_values(described, one).name; !name.empty())
      in_file["name"] = name;
}

}  // namespace

bool RunFlags::takes(const Field& field) const {
  return std::find(groups_.begin(), groups_.end(), field.section) != groups_.end() ||
         std::find(keys_.begin(), keys_.end(), field.key) != keys_.end();
}

void RunFlags::add_to(Flags& flags) {
  command_ = flags.command();
  for (const Field& field : fields()) {
    if (field.flag.empty() || !takes(field)) continue;
    if (field.type.is_switch())
      flags.toggle(
          field.flag, [this, &field] { by_flags_[field.key] = true; }, field.help);
    else
      flags.value(field.flag, field.type, field.default_text(), field.help,
                  [this, &field](const std::string& text) {
                    std::vector<nlohmann::json> values = field.type.values(field.flag, text);
                    by_flags_[field.key] =
                        values.size() == 1 ? values.front() : nlohmann::json(values);
                  });
  }
  if (besides_ == Besides::nothing) return;
  flags.text("--config", config_file_, "FILE",
             "A configuration in JSON (docs/configuration.schema.json), such as a record's; flags "
             "go before it");
  flags.texts("--set", assignments_, "KEY=VALUE",
              "A value by the key that it has in a file of --config, as often as needed");
}

nlohmann::json RunFlags::given() const {
  nlohmann::json given = by_flags_;
  for (const std::string& assignment : assignments_) {
    const nlohmann::json more = given_in_text(assignment);
    const std::string& key = more.begin().key();
    if (given.contains(key))
      throw InputError(fmt::format("--set {} is given, and another flag says it too; leave one out",
                                   assignment));
    given[key] = more.begin().value();
  }
  const auto check = [this](const std::string& where, const Field& field) {
    if (!takes(field))
      throw InputError(fmt::format("{} {} is no setting of frugal {}; leave it out", where,
                                   field.key, command_));
  };
  for (const auto& [key, value] : given.items()) check("--set", field_of(key));
  if (config_file_.empty()) return given;
  nlohmann::json in_file = given_in_file(config_file_);
  replace_described(given, in_file);
  for (const auto& [key, value] : in_file.items()) {
    const Field& field = field_of(key);
    // A model's description says all of it, whatever a command asks.
    if (field.of == FieldOf::model && !takes(field)) continue;
    check(config_file_ + ":", field);
    if (!given.contains(key)) given[key] = value;
  }
  return given;
}

RunSettings RunFlags::settings() const {
  const nlohmann::json all = given();
  const std::vector<std::string> swept = swept_keys(all);
  if (!swept.empty())
    throw InputError(
        fmt::format("{}: several values, and frugal {} takes one configuration; give one value",
                    field_of(swept.front()).name(), command_));
  return settings_of(all);
}

std::vector<FlagFile> RunFlags::inputs(const RunSettings& settings) const {
  std::vector<FlagFile> files = {{"--config", config_file_}};
  for (const Field& field : fields())
    if (settings.is_given(field.key))
      files.push_back({field.name(), field.file_of(field.type.text(field.get(settings)))});
  return files;
}

}  // namespace frugal::harness
