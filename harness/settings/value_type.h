#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/options/fields.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// What a value may be: as text behind a flag, in JSON, in messages and in a JSON Schema.
struct ValueType {
  std::string placeholder;  ///< stands for the text in help: "N"; empty: a switch takes none
  std::string allowed;      ///< "a whole number from 1 to 65536"
  nlohmann::json schema;    ///< of the JSON value
  /// The JSON value of a text; none where it is not allowed.
  std::function<std::optional<nlohmann::json>(const std::string& text)> parse;
  std::function<bool(const nlohmann::json& value)> accepts;
  /// Whether there may be several values, which commas separate.
  bool list = true;
  std::string zero = {};  ///< stands for 0 in text; empty: 0 does
  /// The text of a JSON value; where there is none, its own.
  std::function<std::string(const nlohmann::json& value)> write = {};

  /// What parse() reads again.
  std::string text(const nlohmann::json& value) const;

  /// The values of a text, one where `list` is false. `what` is the flag or key that messages name.
  /// Throws InputError for one that is not allowed or stands twice.
  std::vector<nlohmann::json> values(const std::string& what, const std::string& text) const;
  /// The one value of a text. Throws InputError.
  nlohmann::json value(const std::string& what, const std::string& text) const;
  /// Throws InputError where a JSON value is not allowed.
  void check(const std::string& what, const nlohmann::json& value) const;
  bool is_switch() const { return placeholder.empty(); }
};

/// In [low, high].
ValueType whole_number(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
/// In [low, high).
ValueType real_number(double low, double high);
ValueType one_of(const std::vector<std::string>& names);
/// true or false; a flag without a text says true.
ValueType on_off();
/// Any text that is not empty.
ValueType any_text(const std::string& placeholder);
/// Number of bytes: whole in JSON, in text with its unit: 80GiB, or 80GB of 10^9 bytes each.
ValueType byte_count();
/// A whole number in [1, high]; in text also with k or M behind it, for 1024 or 1024^2 of them.
ValueType token_count(int64_t high);
/// Number in [1, high], or the word, which is 0 in JSON and stands for what `meaning` says.
ValueType whole_number_or(const std::string& word, int64_t high, const std::string& meaning);
/// Some of these with + between them, in JSON as the same text.
ValueType some_of(const std::vector<std::string>& names);
/// Text of a type that reads it, in JSON as the same text.
ValueType own_text(const allowed::Text& text);
/// 1 or 1/k.
allowed::Text scale_text();
/// An object, in text as JSON.
ValueType json_object();

}  // namespace frugal::harness
