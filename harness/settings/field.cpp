#include "harness/settings/field.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/settings/paths.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

json json_of(const RotaryConfig& rotary) {
  json object = {{"base", rotary.base}};
  if (rotary.factor != RotaryConfig().factor) object["factor"] = rotary.factor;
  if (rotary.bands)
    object["bands"] = {{"low", rotary.low}, {"high", rotary.high}, {"original", rotary.original}};
  return object;
}

/// Reads what json_of() writes. Throws InputError; `where` is the file or flag.
RotaryConfig rotary_of(const json& json, const std::string& where) {
  const JsonObject object(json, where, "rotary");
  object.allow_only({"base", "factor", "bands"});
  RotaryConfig rotary;
  rotary.base = object.number("base", 1, 1e12);
  if (object.has("factor")) rotary.factor = object.number("factor", 1, 1e6);
  if (object.has("bands")) {
    const JsonObject bands = object.object("bands");
    bands.allow_only({"low", "high", "original"});
    rotary.bands = true;
    rotary.low = bands.number("low", 0, 1e6);
    rotary.high = bands.number("high", 0, 1e6);
    rotary.original = bands.integer("original", 1);
  }
  return rotary;
}

/// The only field that is an object.
Field rotary() {
  Field field;
  field.key = "rotary";
  field.help = "How queries and keys are rotated: base, factor, bands";
  field.after = "positions";
  field.of = FieldOf::model;
  field.type = json_object();
  field.get = [](const RunSettings& s) { return json_of(s.config.model.rotary); };
  field.set = [](RunSettings& s, const json& json, const std::string& where) {
    s.config.model.rotary = rotary_of(json, where);
  };
  field.is_written_where = [](const RunSettings& s) {
    return s.config.model.positions == PositionKind::rotary;
  };
  field.usual = field.get(RunSettings());
  return field;
}

/// Fields without those that are to follow another, then each of these behind it.
std::vector<Field> ordered(std::vector<Field> fields) {
  const auto middle = std::stable_partition(fields.begin(), fields.end(),
                                            [](const Field& field) { return field.after.empty(); });
  std::vector<Field> later(middle, fields.end());
  fields.erase(middle, fields.end());
  while (!later.empty()) {
    const size_t left = later.size();
    std::erase_if(later, [&fields](const Field& field) {
      const auto before = std::find_if(fields.begin(), fields.end(), [&](const Field& other) {
        return other.key == field.after;
      });
      if (before == fields.end()) return false;
      fields.insert(before + 1, field);
      return true;
    });
    if (later.size() == left)
      throw std::logic_error(
          fmt::format("{} follows {}, which is no field", later.front().key, later.front().after));
  }
  return fields;
}

}  // namespace

std::string Field::default_text() const {
  if (depends || of == FieldOf::model) return "";
  return usual.is_null() || type.is_switch() ? "" : type.text(usual);
}

std::string Field::file_of(const std::string& text) const {
  const size_t colon = text.find(':');
  switch (file) {
    case NamesFile::no:
      return "";
    case NamesFile::perhaps:
      return described_in(text);
    case NamesFile::behind_colon:
      return colon == std::string::npos ? "" : described_in(text.substr(colon + 1));
    case NamesFile::always:
      return text;
  }
  return "";
}

bool Field::is_written(const RunSettings& settings) const {
  if (always) return true;
  return is_written_where ? is_written_where(settings) : get(settings) != usual;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = [] {
    std::vector<Field> found;
    const auto add = [&found]<class Part>(const std::vector<engine::Field<Part>>& members,
                                          auto part_of) {
      for (const engine::Field<Part>& member : members)
        found.push_back(field_from(member, part_of));
    };
    add(
        fields_of<RunSettings>(), [](auto& s) -> auto& { return s; });
    add(
        fields_of<ModelConfig>(), [](auto& s) -> auto& { return s.config.model; });
    found.push_back(rotary());
    add(
        fields_of<TargetOptions>(), [](auto& s) -> auto& { return s.place; });
    add(
        fields_of<RunConfig>(), [](auto& s) -> auto& { return s.config; });
    add(
        fields_of<OptimizerOptions>(), [](auto& s) -> auto& { return s.train.optimizer; });
    add(
        fields_of<TrainConfig>(), [](auto& s) -> auto& { return s.train; });
    add(
        fields_of<EvaluationOptions>(), [](auto& s) -> auto& { return s; });
    return ordered(std::move(found));
  }();
  return all;
}

const Field& field_of(std::string_view key) {
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [key](const Field& field) { return field.key == key; });
  if (found == fields().end())
    throw std::logic_error(fmt::format("no field of a configuration is called {}", key));
  return *found;
}

ValueType value_type_of(const Described& described) {
  struct Types {
    ValueType operator()(const allowed::OnOff& /*any*/) const { return on_off(); }
    ValueType operator()(const allowed::Number& number) const {
      if (!number.zero.empty()) return whole_number_or(number.zero, number.high, number.meaning);
      return number.tokens ? token_count(number.high) : whole_number(number.low, number.high);
    }
    ValueType operator()(const allowed::Real& real) const {
      return real_number(real.low, real.high);
    }
    ValueType operator()(const allowed::OneOf& one) const { return one_of(one.names); }
    ValueType operator()(const allowed::SomeOf& some) const { return some_of(some.names); }
    ValueType operator()(const allowed::Text& text) const { return own_text(text); }
  };
  ValueType type = std::visit(Types(), described.allowed);
  type.list = described.list;
  return type;
}

json json_of(const FieldValue& value) {
  return std::visit(
      [](const auto& held) -> json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

FieldValue value_in(const json& json, const Described& described) {
  if (std::holds_alternative<allowed::OnOff>(described.allowed)) return json.get<bool>();
  if (std::holds_alternative<allowed::Number>(described.allowed)) return json.get<int64_t>();
  if (std::holds_alternative<allowed::Real>(described.allowed)) return json.get<double>();
  return json.get<std::string>();
}

}  // namespace frugal::harness
