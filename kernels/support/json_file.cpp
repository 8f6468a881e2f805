#include "kernels/support/json_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/support/error.h"
#include "kernels/support/paths.h"

namespace frugal::kernels {
namespace {

/// Line and column (from 1) of a byte of the text.
std::pair<int64_t, int64_t> position(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = 1 + before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return {line, static_cast<int64_t>(column)};
}

/// A value as it is quoted in an error: short, and on one line.
std::string quoted(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return fmt::format("{} ({})", text, value.type_name());
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (const char letter : a) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (letter == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

template <class T>
struct Expected;
template <>
struct Expected<bool> {
  static std::string_view name() { return "true or false"; }
  static bool is(const nlohmann::json& j) { return j.is_boolean(); }
};
template <>
struct Expected<int64_t> {
  static constexpr std::string_view several = "whole numbers";
  static std::string_view name() { return "a whole number"; }
  static bool is(const nlohmann::json& j) {
    if (j.is_number_unsigned()) {
      return j.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    }
    return j.is_number_integer();
  }
};
template <>
struct Expected<double> {
  static constexpr std::string_view several = "numbers";
  static std::string_view name() { return "a number"; }
  static bool is(const nlohmann::json& j) { return j.is_number(); }
};
template <>
struct Expected<std::string> {
  static constexpr std::string_view several = "strings";
  static std::string_view name() { return "a string"; }
  static bool is(const nlohmann::json& j) { return j.is_string(); }
};
template <class T>
struct Expected<std::vector<T>> {
  static bool is(const nlohmann::json& j) {
    return j.is_array() && std::all_of(j.begin(), j.end(), Expected<T>::is);
  }
  static std::string name() { return fmt::format("a list of {}", Expected<T>::several); }
};

/// Levels of objects and arrays. What follows a document down calls itself at each.
constexpr int deepest = 100;

}  // namespace

nlohmann::json parse_json_strictly(std::string_view text, const std::string& name) {
  using Event = nlohmann::json::parse_event_t;
  // The library keeps the last of two equal keys, and a reader may have meant the first.
  std::vector<std::set<std::string>> keys;  // of the objects around a place
  const auto refuse = [&](int depth, Event event, nlohmann::json& value) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    if (opens && depth >= deepest)
      throw InputError(
          fmt::format("{}: is nested deeper than {} levels; correct the file", name, deepest));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      throw InputError(fmt::format("{}: key {} stands twice in one object; leave one of them out",
                                   name, value.dump()));
    return true;
  };
  return nlohmann::json::parse(text, refuse);
}

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

nlohmann::json parse_json(std::string_view text, const std::string& name) {
  try {
    return parse_json_strictly(text, name);
  } catch (const nlohmann::json::parse_error& e) {
    // `byte` counts from 1 and is one beyond the text where that ends too early.
    const bool truncated = e.byte > text.size();
    const auto [line, column] = position(text, e.byte == 0 ? 0 : e.byte - 1);
    throw InputError(fmt::format("{}:{}:{}: not valid JSON: {}", name, line, column,
                                 truncated ? "the file ends too early; is it truncated?"
                                           : fmt::format("unexpected '{}'; correct the file there",
                                                         text[e.byte == 0 ? 0 : e.byte - 1])));
  } catch (const nlohmann::json::exception& e) {
    throw InputError(fmt::format("{}: not valid JSON: {}", name, e.what()));
  }
}

std::string read_text(const std::string& path) {
  if (is_folder(path)) throw InputError(fmt::format("{}: is a folder; give a file", path));
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw InputError(fmt::format("{}: cannot be read: {}; check the path", path,
                                 std::strerror(errno)));  // NOLINT(concurrency-mt-unsafe)
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw InputError(fmt::format("{}: reading it failed", path));
  return text;
}

nlohmann::json load_json(const std::string& path) { return parse_json(read_text(path), path); }

JsonObject::JsonObject(const nlohmann::json& json, std::string file, std::string path)
    : json_(&json), file_(std::move(file)), path_(std::move(path)) {
  if (!json.is_object())
    throw InputError(fmt::format("{}: {} is {}; it must be an object", file_,
                                 path_.empty() ? "the file's content" : path_, quoted(json)));
}

std::string JsonObject::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

bool JsonObject::has(std::string_view key) const { return json_->contains(key); }

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : json_->items()) keys.push_back(item.key());
  return keys;
}

void JsonObject::fail(std::string_view key, const std::string& what) const {
  throw InputError(fmt::format("{}: {} {}", file_, path_of(key), what));
}

const nlohmann::json& JsonObject::at(std::string_view key) const {
  const auto found = json_->find(key);
  if (found == json_->end()) fail(key, "is missing; add it");
  return *found;
}

template <class T>
T JsonObject::require(std::string_view key) const {
  const nlohmann::json& value = at(key);
  if (!Expected<T>::is(value))
    fail(key, fmt::format("is {}; it must be {}", quoted(value), Expected<T>::name()));
  return value.get<T>();
}
template bool JsonObject::require(std::string_view) const;
template int64_t JsonObject::require(std::string_view) const;
template double JsonObject::require(std::string_view) const;
template std::string JsonObject::require(std::string_view) const;
template std::vector<int64_t> JsonObject::require(std::string_view) const;
template std::vector<double> JsonObject::require(std::string_view) const;
template std::vector<std::string> JsonObject::require(std::string_view) const;

int64_t JsonObject::integer(std::string_view key, int64_t low, int64_t high) const {
  const auto value = require<int64_t>(key);
  if (value < low || value > high) {
    const bool open = high == std::numeric_limits<int64_t>::max();
    fail(key, fmt::format("is {}; it must be at least {}{}", value, low,
                          open ? "" : fmt::format(" and at most {}", high)));
  }
  return value;
}

double JsonObject::number(std::string_view key, double low, double high) const {
  const auto value = require<double>(key);
  if (!(value >= low && value <= high)) {
    const bool open = high == std::numeric_limits<double>::infinity();
    fail(key, fmt::format("is {}; it must be at least {}{}", value, low,
                          open ? "" : fmt::format(" and at most {}", high)));
  }
  return value;
}

JsonObject JsonObject::object(std::string_view key) const { return {at(key), file_, path_of(key)}; }

std::vector<JsonObject> JsonObject::objects(std::string_view key) const {
  const nlohmann::json& list = at(key);
  if (!list.is_array()) fail(key, fmt::format("is {}; it must be a list of objects", quoted(list)));
  std::vector<JsonObject> result;
  for (size_t i = 0; i < list.size(); ++i)
    result.emplace_back(list[i], file_, fmt::format("{}[{}]", path_of(key), i));
  return result;
}

void JsonObject::allow_only(const std::vector<std::string>& allowed) const {
  for (const auto& item : json_->items()) {
    if (std::find(allowed.begin(), allowed.end(), item.key()) != allowed.end()) continue;
    const auto near = nearest(item.key(), allowed);
    fail(item.key(),
         near.empty() ? fmt::format("is not a known key; known here: {}", fmt::join(allowed, ", "))
                      : fmt::format("is not a known key; did you mean {}?", near[0]));
  }
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& names) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (2 * distance <= std::max(name.size(), candidate.size()))
      ranked.emplace_back(distance, candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > 3) ranked.resize(3);
  std::vector<std::string> result;
  result.reserve(ranked.size());
  for (auto& [distance, candidate] : ranked) result.push_back(std::move(candidate));
  return result;
}

}  // namespace frugal::kernels
