#include "harness/import/nested_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {

NestedParts::NestedParts(const nlohmann::json& object, std::string file) : file_(std::move(file)) {
  if (!object.is_object())
    throw InputError(fmt::format("{}: it is no object with sections; give a configuration", file_));
  flatten(object, "");
}

void NestedParts::flatten(const nlohmann::json& object, const std::string& path) {
  for (const auto& [key, value] : object.items()) {
    const std::string inner = path.empty() ? key : fmt::format("{}.{}", path, key);
    if (value.is_object())
      flatten(value, inner);
    else
      parts_.push_back({inner, value});
  }
}

const NestedParts::Part* NestedParts::find(std::string_view path) const {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [path](const Part& part) { return part.path == path; });
  return found == parts_.end() ? nullptr : &*found;
}

std::string NestedParts::said(std::string_view path) const {
  const Part* part = find(path);
  return part == nullptr ? "" : fmt::format("{} = {}", path, part->value.dump());
}

std::string NestedParts::first(const std::vector<std::string>& paths) const {
  for (const std::string& path : paths)
    if (has(path)) return path;
  return paths.front();
}

void NestedParts::take(std::string_view path) {
  for (Part& part : parts_) part.taken = part.taken || part.path == path;
}

const nlohmann::json* NestedParts::value(std::string_view path) {
  const Part* part = find(path);
  if (part == nullptr || part->value.is_null() || is_auto(path)) return nullptr;
  take(path);
  return &part->value;
}

bool NestedParts::is_on(std::string_view path) const {
  const Part* part = find(path);
  return part != nullptr && part->value == true;
}

bool NestedParts::is_auto(std::string_view path) const {
  const Part* part = find(path);
  return part != nullptr && part->value == "auto";
}

void NestedParts::fail(std::string_view path, const std::string& what) const {
  throw InputError(fmt::format("{}: {} {}", file_, path, what));
}

std::optional<int64_t> NestedParts::whole(std::string_view path, int64_t low) {
  const nlohmann::json* found = value(path);
  if (found == nullptr) return std::nullopt;
  constexpr int64_t most = int64_t{1} << 40;
  if (!found->is_number_integer() || found->get<int64_t>() < low || found->get<int64_t>() > most)
    fail(path,
         fmt::format("is {}; it must be a whole number from {} to {}", found->dump(), low, most));
  return found->get<int64_t>();
}

std::optional<double> NestedParts::number(std::string_view path) {
  const nlohmann::json* found = value(path);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number() || found->get<double>() < 0)
    fail(path, fmt::format("is {}; it must be a number from 0 on", found->dump()));
  return found->get<double>();
}

std::optional<std::string> NestedParts::text(std::string_view path) {
  const nlohmann::json* found = value(path);
  if (found == nullptr) return std::nullopt;
  return found->is_string() ? found->get<std::string>() : found->dump();
}

bool NestedParts::on(std::string_view path) {
  const nlohmann::json* found = value(path);
  if (found == nullptr) return false;
  if (!found->is_boolean())
    fail(path, fmt::format("is {}; it must be true or false", found->dump()));
  return found->get<bool>();
}

bool NestedParts::is_off(const Part& part, const std::vector<std::string>& off) const {
  const std::string section = part.path.substr(0, part.path.find('.'));
  const auto disabled = [this, &section](const char* name) {
    const Part* const found = find(section + name);
    return found != nullptr && found->value == false;
  };
  return part.value.is_null() || part.value == false ||
         (part.value.is_array() && part.value.empty()) ||
         std::find(off.begin(), off.end(), section) != off.end() || disabled(".enable") ||
         disabled(".enabled");
}

void NestedParts::rest(const std::vector<KnownParts>& same, const std::vector<KnownParts>& missing,
                       Imported& out, const std::vector<std::string>& off) const {
  std::vector<std::string> names;
  for (const auto* table : {&same, &missing})
    for (const KnownParts& line : *table)
      for (const std::string_view name : line.names)
        if (!name.ends_with("*")) names.emplace_back(name);
  for (const Part& part : parts_) {
    if (part.taken) continue;
    const std::string text = said(part.path);
    const KnownParts* lacks = find_known(missing, part.path);
    if (is_auto(part.path)) {
      out.unknown.push_back(
          {text, "the program around it decides this; what stands for it is assumed"});
    } else if (const KnownParts* line = find_known(same, part.path)) {
      out.same.push_back({text, std::string(line->what)});
    } else if (lacks != nullptr && is_off(part, off)) {
      out.same.push_back({text, "it is off"});
    } else if (lacks != nullptr) {
      out.missing.push_back({text, std::string(lacks->what)});
    } else {
      const auto near = nearest(part.path, names);
      out.unknown.push_back(
          {text, near.empty() ? "not known"
                              : fmt::format("not known; similar are {}", fmt::join(near, ", "))});
    }
  }
}

}  // namespace frugal::harness
