#include "harness/import/nested_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {

NestedParts::NestedParts(const nlohmann::json& object, std::string file, std::string_view open)
    : file_(std::move(file)), open_(open) {
  if (!object.is_object())
    throw InputError(fmt::format("{}: it is no object with sections; give a configuration", file_));
  flatten(object, "");
}

void NestedParts::flatten(const nlohmann::json& object, const std::string& path) {
  for (const auto& [key, value] : object.items()) {
    const std::string inner = path.empty() ? key : fmt::format("{}.{}", path, key);
    if (value.is_object() && !value.empty())
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
  asked_.emplace(path);
  for (Part& part : parts_) part.taken = part.taken || part.path == path;
}

const nlohmann::json* NestedParts::value(std::string_view path) {
  asked_.emplace(path);
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
  return part != nullptr && !open_.empty() && part->value == open_;
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
  if (!found->is_string()) fail(path, fmt::format("is {}; it must be a text", found->dump()));
  return found->get<std::string>();
}

std::optional<std::string> NestedParts::one_of(std::string_view path,
                                               const std::vector<std::string_view>& known) {
  auto found = text(path);
  if (found && std::find(known.begin(), known.end(), *found) == known.end())
    fail(path, fmt::format("is \"{}\"; it must be one of {}", *found, fmt::join(known, ", ")));
  return found;
}

bool NestedParts::on(std::string_view path) {
  const nlohmann::json* found = value(path);
  if (found == nullptr) return false;
  if (!found->is_boolean())
    fail(path, fmt::format("is {}; it must be true or false", found->dump()));
  return found->get<bool>();
}

namespace {

std::string path_in(const KnownKeys& line, std::string_view key) {
  return line.section.empty() ? std::string(key) : fmt::format("{}.{}", line.section, key);
}

/// The line that has a path, or the section that it names; null where there is none.
const KnownKeys* known_line(const std::vector<KnownKeys>& all, const std::string& path) {
  const auto names = [&path](const KnownKeys& line) {
    if (path.starts_with(fmt::format("{}.", line.section)) && line.keys.front() == "*") return true;
    return std::any_of(line.keys.begin(), line.keys.end(),
                       [&](std::string_view key) { return path_in(line, key) == path; });
  };
  const auto found = std::find_if(all.begin(), all.end(), names);
  return found == all.end() ? nullptr : &*found;
}

bool is_section(const std::vector<KnownKeys>& all, const std::string& path) {
  return std::any_of(all.begin(), all.end(), [&path](const KnownKeys& line) {
    return line.section == path || line.section.starts_with(path + ".");
  });
}

bool has_usual_value(const KnownKeys& line, const nlohmann::json& value) {
  if (line.usual.empty()) return value.is_null() || value == false || value == "" || value.empty();
  const std::string text = value.dump();
  return std::find(line.usual.begin(), line.usual.end(), text) != line.usual.end();
}

}  // namespace

bool NestedParts::is_off(const Part& part, const std::vector<std::string>& off) const {
  for (size_t end = part.path.find('.'); end != std::string::npos;
       end = part.path.find('.', end + 1)) {
    const std::string section = part.path.substr(0, end);
    if (std::find(off.begin(), off.end(), section) != off.end()) return true;
    for (const char* name : {".enable", ".enabled"}) {
      const Part* const found = find(section + name);
      if (found != nullptr && found->value == false) return true;
    }
  }
  return false;
}

void NestedParts::say(const Part& part, const std::vector<KnownKeys>& same,
                      const std::vector<KnownKeys>& missing, Imported& out,
                      const std::vector<std::string>& off) const {
  const std::string text = said(part.path);
  const KnownKeys* const harmless = known_line(same, part.path);
  const KnownKeys* const lacks = known_line(missing, part.path);
  if (asked_.contains(part.path) && part.value.is_null()) {
    out.same.push_back({text, "null is as good as absent"});
  } else if (asked_.contains(part.path) && is_auto(part.path)) {
    out.assumed.push_back(
        {text, "the program around it decides this; what stands for it is assumed"});
  } else if (harmless != nullptr) {
    out.same.push_back({text, std::string(harmless->what)});
  } else if (lacks != nullptr && is_auto(part.path)) {
    out.assumed.push_back({text, fmt::format("the program around it decides this: {}; frugal takes "
                                             "it to be off",
                                             lacks->what)});
  } else if (lacks != nullptr && is_off(part, off)) {
    out.same.push_back({text, "it is off"});
  } else if (lacks != nullptr && has_usual_value(*lacks, part.value)) {
    out.same.push_back({text, lacks->usual.empty() ? "it is off" : "it is as frugal has it"});
  } else if (lacks != nullptr) {
    out.missing.push_back({text, std::string(lacks->what)});
  } else if (part.value.is_object() &&
             (is_section(same, part.path) || is_section(missing, part.path))) {
    out.same.push_back({text, "nothing stands in it"});
  } else {
    std::vector<std::string> names;
    for (const auto* table : {&same, &missing})
      for (const KnownKeys& line : *table)
        for (const std::string_view key : line.keys) names.push_back(path_in(line, key));
    names.insert(names.end(), asked_.begin(), asked_.end());
    const auto near = nearest(part.path, names);
    out.unknown.push_back(
        {text, near.empty() ? "not known"
                            : fmt::format("not known; similar are {}", fmt::join(near, ", "))});
  }
}

void NestedParts::rest(const std::vector<KnownKeys>& same, const std::vector<KnownKeys>& missing,
                       Imported& out, const std::vector<std::string>& off) const {
  for (const Part& part : parts_)
    if (!part.taken) say(part, same, missing, out, off);
}

}  // namespace frugal::harness
