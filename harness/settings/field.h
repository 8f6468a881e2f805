#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/options/fields.h"
#include "harness/settings/settings.h"
#include "harness/settings/value_type.h"

namespace frugal::harness {

/// Which description of a configuration in JSON has a field.
enum class FieldOf : uint8_t { model, run, command };

/// A field of RunSettings, made from the description of a member (engine/options/fields.h): all
/// that flags, JSON, the schema, docs/cli.md and a record's command know of it.
struct Field : Described {
  FieldOf of = FieldOf::command;
  ValueType type = {};
  std::function<nlohmann::json(const RunSettings&)> get = {};  ///< null: not set
  /// Throws InputError for what is wrong within an object; `where` is the file or flag.
  std::function<void(RunSettings&, const nlohmann::json&, const std::string& where)> set = {};
  std::function<bool(const RunSettings&)> is_written_where = {};  ///< empty: where not as `usual`
  nlohmann::json usual = {};                                      ///< the value by default

  /// In words of the command line: "--recompute", or "--set rotary".
  std::string name() const { return flag.empty() ? "--set " + key : flag; }
  /// Default value, for help; empty where it depends, and where it is not set.
  std::string default_text() const;
  /// The file that the text leads to; empty where it leads to none.
  std::string file_of(const std::string& text) const;
  /// Whether JSON that describes these settings has it.
  bool is_written(const RunSettings& settings) const;
};

/// All fields, in the order of help and of commands.
const std::vector<Field>& fields();
/// Throws std::logic_error for a key that is none's.
const Field& field_of(std::string_view key);

ValueType value_type_of(const Described& described);
nlohmann::json json_of(const FieldValue& value);
/// Requires a value that the type of the field accepts.
FieldValue value_in(const nlohmann::json& json, const Described& described);

/// The field of a described member of the part of RunSettings that `part_of` finds.
template <class Part, class PartOf>
Field field_from(const engine::Field<Part>& member, PartOf part_of) {
  Field field{member};
  field.of = std::is_same_v<Part, ModelConfig> ? FieldOf::model
             : std::is_same_v<Part, RunConfig> ? FieldOf::run
                                               : FieldOf::command;
  field.type = value_type_of(member);
  field.get = [get = member.get, part_of](const RunSettings& s) {
    return json_of(get(part_of(s)));
  };
  field.set = [set = member.set, part_of, described = Described(member)](
                  RunSettings& s, const nlohmann::json& json, const std::string& /*where*/) {
    set(part_of(s), value_in(json, described));
  };
  if (member.is_written)
    field.is_written_where = [is = member.is_written, part_of](const RunSettings& s) {
      return is(part_of(s));
    };
  field.usual = field.get(RunSettings());
  return field;
}

}  // namespace frugal::harness
