#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/settings/names.h"
#include "harness/settings/settings.h"
#include "harness/settings/value_type.h"

namespace frugal::harness {

/// Fields that a command takes together or not at all.
enum class FieldGroup : uint8_t {
  model,         ///< all of a model but its sequence length
  length,        ///< the sequence length
  place,         ///< processor, GPUs or machine
  lone_rank,     ///< one rank without its peers
  layout,        ///< how ranks share the work
  own_schedule,  ///< a schedule in a file
  memory,        ///< what trades memory for something else
  training,      ///< types, batch and optimizer
  steps,         ///< how many, and the text that is trained on
  evaluation     ///< what is asked beside training, and weights to begin with
};

/// Which description of a configuration in JSON has a field.
enum class FieldOf : uint8_t { model, run, command };

/// One field of RunSettings: all that flags, JSON, the schema, docs/cli.md and a record's command
/// know of it.
struct Field {
  std::string key;   ///< in JSON, and of --set: "tensor_parallel_size"
  std::string flag;  ///< "--tensor-parallel"; empty: --set and JSON only
  std::string help;
  FieldOf of = FieldOf::command;
  ValueType type;
  std::function<nlohmann::json(const RunSettings&)> get;  ///< null: not set
  /// Throws InputError for what is wrong within an object; `where` is the file or flag.
  std::function<void(RunSettings&, const nlohmann::json&, const std::string& where)> set;
  nlohmann::json usual = {};  ///< the value by default
  FieldGroup group = FieldGroup::model;
  /// Whether JSON that describes a whole configuration must have it.
  bool required = false;
  /// Whether JSON has a value of it; where this is empty, where it is not as it is by default.
  std::function<bool(const RunSettings&)> written = {};
  /// Whether the default depends on other fields; `help` says how.
  bool depends = false;
  /// Whether the text is a file's: perhaps, "NAME|FILE"; or what is behind a colon, "virtual:FILE".
  enum class File : uint8_t { none, perhaps, behind_colon, always } file = File::none;

  /// In words of the command line: "--recompute", or "--set rotary".
  std::string name() const { return flag.empty() ? "--set " + key : flag; }
  /// Default value, for help; empty where it depends, and where it is not set.
  std::string default_text() const;
  /// The file that the text leads to; empty where it leads to none.
  std::string file_of(const std::string& text) const;
  /// Whether JSON that describes these settings has it.
  bool is_written(const RunSettings& settings) const;

  Field always() &&;
  Field if_said() &&;  ///< `depends`
  Field with_file(File kind) &&;
  Field needed() &&;
  Field when(std::function<bool(const RunSettings&)> condition) &&;
};

/// All fields, in the order of help and of commands.
const std::vector<Field>& fields();
/// Throws std::logic_error for a key that is none's.
const Field& field_of(std::string_view key);

// One file each.
std::vector<Field> model_fields();
std::vector<Field> place_fields();
std::vector<Field> layout_fields();
std::vector<Field> memory_fields();
std::vector<Field> training_fields();

/// Key, flag and help.
struct FieldText {
  std::string key, flag, help;
};

namespace field_access {

template <class Part>
decltype(auto) part_of(auto& s) {
  if constexpr (std::is_same_v<Part, RunSettings>)
    return (s);
  else if constexpr (std::is_same_v<Part, RunConfig>)
    return (s.config);
  else if constexpr (std::is_same_v<Part, ModelConfig>)
    return (s.config.model);
  else if constexpr (std::is_same_v<Part, TrainConfig>)
    return (s.train);
  else if constexpr (std::is_same_v<Part, OptimizerOptions>)
    return (s.train.optimizer);
  else
    return (s.place);
}

/// An enumeration, or what else goes by its name.
template <class T>
concept Named = requires(const T& value) {
  name_of(value);
};

template <class T>
nlohmann::json to_json_value(const T& value) {
  if constexpr (Named<T>)
    return std::string(name_of(value));
  else
    return value;
}
template <class T>
nlohmann::json to_json_value(const std::optional<T>& value) {
  return value ? to_json_value(*value) : nlohmann::json(nullptr);
}

template <class T>
void from_json_value(const nlohmann::json& json, T& value) {
  if constexpr (Named<T>)
    value = *from_name<T>(json.get<std::string>());
  else
    value = json.get<T>();
}
template <class T>
void from_json_value(const nlohmann::json& json, std::optional<T>& value) {
  from_json_value(json, value.emplace());
}

}  // namespace field_access

template <class Part, class T>
Field field(const FieldText& text, T Part::*member, ValueType type) {
  using namespace field_access;  // NOLINT(google-build-using-namespace): they are for here
  const FieldOf of = std::is_same_v<Part, ModelConfig> ? FieldOf::model
                     : std::is_same_v<Part, RunConfig> ? FieldOf::run
                                                       : FieldOf::command;
  return {.key = text.key,
          .flag = text.flag,
          .help = text.help,
          .of = of,
          .type = std::move(type),
          .get = [member](const RunSettings& s) { return to_json_value(part_of<Part>(s).*member); },
          .set = [member](RunSettings& s, const nlohmann::json& json,
                          const std::string&) { from_json_value(json, part_of<Part>(s).*member); }};
}

/// One of those that have names.
template <class Part, class E>
Field choice(const FieldText& text, E Part::*member) {
  return field(text, member, one_of(all_names<E>()));
}

template <class Part>
Field on_off(const FieldText& text, bool Part::*member) {
  return field(text, member, on_off());
}

}  // namespace frugal::harness
