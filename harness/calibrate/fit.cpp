#include "harness/calibrate/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/program/find_program.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// Whether a file has a number of this key, such as "network.link_bandwidth".
bool has_number(const nlohmann::json& file, const std::string& key) {
  const size_t dot = std::min(key.find('.'), key.size());
  const auto group = file.find(key.substr(0, dot));
  if (dot == key.size() || group == file.end() || !group->is_object()) return false;
  const auto entry = group->find(key.substr(dot + 1));
  return entry != group->end() && entry->is_object() && entry->contains("value") &&
         entry->at("value").is_number();
}

}  // namespace

bool Fit::Cells::include(std::string_view artifact_, std::string_view row_,
                         std::string_view column_) const {
  const auto matches = [](std::string_view fitted, std::string_view asked) {
    return fitted.empty() || asked.empty() || fitted == asked;
  };
  return artifact == artifact_ && matches(row, row_) && matches(column, column_);
}

bool Fit::is_to(std::string_view artifact, std::string_view row, std::string_view column) const {
  return std::any_of(to.begin(), to.end(),
                     [&](const Cells& cells) { return cells.include(artifact, row, column); });
}

Fit find_fit(const std::string& name_or_path) {
  const auto [text, name] = find_machine_file(name_or_path);
  const nlohmann::json file = parse_json(text, name);
  const JsonObject root(file, name);
  Fit read;
  if (!root.has("fit")) return read;
  const JsonObject fit = root.object("fit");
  fit.allow_only({"program", "parameters", "to", "held_out"});
  if (fit.has("program")) read.program = find_program(fit.require<std::string>("program"));
  read.parameters = fit.require<std::vector<std::string>>("parameters");
  for (const std::string& key : read.parameters)
    if (!has_number(file, key))
      fit.fail("parameters", fmt::format("has \"{}\", which is no number of this file", key));
  for (const JsonObject& cells : fit.objects("to")) {
    cells.allow_only({"artifact", "row", "column"});
    read.to.push_back({cells.require<std::string>("artifact"),
                       cells.optional<std::string>("row", ""),
                       cells.optional<std::string>("column", "")});
  }
  read.held_out = fit.require<std::vector<std::string>>("held_out");
  return read;
}

}  // namespace frugal::harness
