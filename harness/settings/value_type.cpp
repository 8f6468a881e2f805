#include "harness/settings/value_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "harness/record/cell.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// The whole text as a number, or none.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

bool is_whole(const json& value, int64_t low, int64_t high) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
  return value.is_number_integer() && value.get<int64_t>() >= low && value.get<int64_t>() <= high;
}

/// Text whose JSON value is made by `read`, and is allowed where that is.
ValueType type(const std::string& placeholder, const std::string& allowed, json schema,
               std::function<std::optional<json>(const std::string&)> read,
               std::function<bool(const json&)> accepts) {
  return {.placeholder = placeholder,
          .allowed = allowed,
          .schema = std::move(schema),
          .parse =
              [read = std::move(read), accepts](const std::string& text) {
                std::optional<json> value = read(text);
                return value && accepts(*value) ? value : std::nullopt;
              },
          .accepts = accepts};
}

template <class T>
std::optional<json> json_number(const std::string& text) {
  const std::optional<T> value = number_in<T>(text);
  return value ? std::optional<json>(*value) : std::nullopt;
}

std::optional<json> json_text(const std::string& text) { return json(text); }

[[noreturn]] void reject(const std::string& what, const std::string& value,
                         const std::string& allowed) {
  throw InputError(fmt::format("{} is {}; it must be {}", what, value, allowed));
}

struct ByteUnit {
  std::string_view name;
  int64_t size;
};
/// The largest first.
constexpr std::array byte_units = {ByteUnit{"TiB", int64_t{1} << 40},
                                   ByteUnit{"TB", 1'000'000'000'000},
                                   ByteUnit{"GiB", 1 << 30},
                                   ByteUnit{"GB", 1'000'000'000},
                                   ByteUnit{"MiB", 1 << 20},
                                   ByteUnit{"MB", 1'000'000},
                                   ByteUnit{"KiB", 1 << 10},
                                   ByteUnit{"kB", 1'000},
                                   ByteUnit{"B", 1}};

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

/// Rounded to a whole one where its unit is larger than that.
std::optional<json> bytes_in(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string name = in_small_letters(text.substr(digits));
  const auto unit = std::find_if(byte_units.begin(), byte_units.end(), [&](const ByteUnit& one) {
    return in_small_letters(one.name) == name;
  });
  const std::optional<double> number = number_in<double>(text.substr(0, digits));
  if (unit == byte_units.end() || !number) return std::nullopt;
  const double size = *number * static_cast<double>(unit->size);
  if (size < 1 || size >= 0x1p63 || (unit->size == 1 && size != std::floor(size)))
    return std::nullopt;
  return json(std::llround(size));
}

std::optional<json> tokens_in(const std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = in_small_letters(text.substr(digits));
  const std::optional<int64_t> number = number_in<int64_t>(text.substr(0, digits));
  const int64_t size = unit.empty() ? 1 : unit == "k" ? 1 << 10 : unit == "m" ? 1 << 20 : 0;
  if (!number || size == 0 || *number > std::numeric_limits<int64_t>::max() / size)
    return std::nullopt;
  return json(*number * size);
}

/// Text of a number of bytes, in the largest unit that leaves no remainder.
std::string bytes_text(const json& value) {
  const int64_t bytes = value.get<int64_t>();
  const auto unit = std::find_if(byte_units.begin(), byte_units.end(),
                                 [bytes](const ByteUnit& one) { return bytes % one.size == 0; });
  return fmt::format("{}{}", bytes / unit->size, unit->name);
}

}  // namespace

std::string ValueType::text(const json& value) const {
  if (write) return write(value);
  if (value == 0 && !zero.empty()) return zero;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

json ValueType::value(const std::string& what, const std::string& text) const {
  if (std::optional<json> value = parse(text)) return *value;
  reject(what, fmt::format("\"{}\"", text), allowed);
}

std::vector<json> ValueType::values(const std::string& what, const std::string& text) const {
  std::vector<json> all;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list ? text.find(',', begin) : std::string::npos;
    all.push_back(value(what, text.substr(begin, end - begin)));
    if (std::count(all.begin(), all.end(), all.back()) > 1)
      throw InputError(fmt::format("{} is \"{}\", which has {} twice; leave one of them out", what,
                                   text, this->text(all.back())));
  }
  return all;
}

void ValueType::check(const std::string& what, const json& value) const {
  if (!accepts(value)) reject(what, value.dump(), allowed);
}

ValueType whole_number(int64_t low, int64_t high) {
  json schema = {{"type", "integer"}, {"minimum", low}};
  if (high != std::numeric_limits<int64_t>::max()) schema["maximum"] = high;
  return type("N", fmt::format("a whole number from {} to {}", low, high), schema,
              json_number<int64_t>,
              [low, high](const json& value) { return is_whole(value, low, high); });
}

ValueType real_number(double low, double high) {
  return type("X", fmt::format("a number that is at least {} and below {}", low, high),
              {{"type", "number"}, {"minimum", low}, {"exclusiveMaximum", high}},
              json_number<double>, [low, high](const json& value) {
                return value.is_number() && value.get<double>() >= low &&
                       value.get<double>() < high;
              });
}

ValueType one_of(const std::vector<std::string>& names) {
  return type(
      fmt::format("{}", fmt::join(names, "|")), fmt::format("one of {}", fmt::join(names, ", ")),
      {{"enum", names}}, json_text, [names](const json& value) {
        return value.is_string() &&
               std::find(names.begin(), names.end(), value.get<std::string>()) != names.end();
      });
}

ValueType on_off() {
  return type(
      "", "true or false", {{"type", "boolean"}},
      [](const std::string& text) -> std::optional<json> {
        if (text != "true" && text != "false") return std::nullopt;
        return json(text == "true");
      },
      [](const json& value) { return value.is_boolean(); });
}

ValueType any_text(const std::string& placeholder) {
  ValueType any = own_text({.placeholder = placeholder});
  any.list = false;
  return any;
}

allowed::Text scale_text() {
  return {.placeholder = "1/K",
          .words = "1 or 1/k, such as 1/4",
          .reads = [](const std::string& text) { return parse_scale(text).has_value(); },
          .pattern = "^1(/[1-9][0-9]*)?$"};
}

ValueType byte_count() {
  ValueType bytes =
      type("SIZE",
           "bytes with their unit, such as 80GiB (2^30 bytes each) or 80GB (10^9): B, KiB, MiB, "
           "GiB, TiB, kB, MB, GB or TB",
           {{"type", "integer"}, {"minimum", 1}}, bytes_in,
           [](const json& value) { return is_whole(value, 1, int64_t{1} << 62); });
  bytes.write = bytes_text;
  return bytes;
}

ValueType token_count(int64_t high) {
  const ValueType count = whole_number(1, high);
  return type("N", count.allowed + ", on the command line also 8k for 8192 and 1M for 1048576",
              count.schema, tokens_in, count.accepts);
}

ValueType whole_number_or(const std::string& word, int64_t high, const std::string& meaning) {
  ValueType number = type(
      "N|" + word, fmt::format("a whole number from 1 to {}, or {} for {}", high, word, meaning),
      {{"type", "integer"}, {"minimum", 0}, {"maximum", high}},
      [word](const std::string& text) -> std::optional<json> {
        if (text == word) return json(0);
        return text == "0" ? std::nullopt : json_number<int64_t>(text);
      },
      [high](const json& value) { return is_whole(value, 0, high); });
  number.zero = word;
  return number;
}

ValueType some_of(const std::vector<std::string>& names) {
  const auto reads = [names](const std::string& text) {
    std::vector<std::string> found;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('+', begin), text.size());
      found.push_back(text.substr(begin, end - begin));
      begin = end + 1;
      if (std::count(found.begin(), found.end(), found.back()) > 1 ||
          std::find(names.begin(), names.end(), found.back()) == names.end())
        return false;
    }
    return true;
  };
  return own_text(
      {.placeholder = "MODULE+MODULE...",
       .words = fmt::format("one or several of {} with + between them", fmt::join(names, ", ")),
       .reads = reads});
}

ValueType own_text(const allowed::Text& text) {
  json schema = {{"type", "string"}};
  if (!text.pattern.empty())
    schema["pattern"] = text.pattern;
  else if (!text.may_be_empty)
    schema["minLength"] = 1;
  return type(text.placeholder, text.words, schema, json_text, [text](const json& value) {
    return value.is_string() && (text.may_be_empty || text.reads(value.get<std::string>()));
  });
}

ValueType json_object() {
  ValueType object = type(
      "JSON", "an object in JSON", {{"type", "object"}},
      [](const std::string& text) -> std::optional<json> {
        try {
          return parse_json(text, "");
        } catch (const InputError&) {
          return std::nullopt;
        }
      },
      [](const json& value) { return value.is_object(); });
  object.list = false;
  return object;
}

}  // namespace frugal::harness
