#include "kernels/virtual/machine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/support/embedded.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/virtual/machine.h"
#include "kernels/virtual/machine_parts.h"

namespace frugal::kernels {
namespace {

using nlohmann::json;

constexpr std::string_view extension = ".json";

/// Files inside the program: hardware/NAME.json, called a machine in messages.
struct Folder {
  std::string_view path, what;
};
constexpr Folder machines{"hardware/", "machine"}, programs{"programs/", "program"};

struct File {
  json content;
  std::string name;
};

std::vector<std::string> names_in(const Folder& folder) {
  std::vector<std::string> names;
  for (const auto& [path, text] : embedded_files()) {
    if (path.starts_with(folder.path) && path.ends_with(extension))
      names.push_back(
          path.substr(folder.path.size(), path.size() - folder.path.size() - extension.size()));
  }
  return names;
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(extension);
}

File read_file(const Folder& folder, const std::string& name_or_path) {
  if (is_path(name_or_path)) return {load_json(name_or_path), name_or_path};
  const std::string path = fmt::format("{}{}{}", folder.path, name_or_path, extension);
  if (const auto text = embedded_file(path)) return {parse_json(*text, path), path};
  const auto names = names_in(folder);
  const auto near = nearest(name_or_path, names);
  throw InputError(
      fmt::format("no {0} is called \"{1}\"; {2} {3}, or give the path of a {0} file (FILE.json)",
                  folder.what, name_or_path, near.empty() ? "known are" : "did you mean",
                  fmt::join(near.empty() ? names : near, ", ")));
}

/// The file that a key names, beside its own where it is a path. That there is none is this file's
/// mistake.
File named_by(const JsonObject& object, std::string_view key, const Folder& folder) {
  const auto name = object.require<std::string>(key);
  const auto beside = std::filesystem::path(object.file()).parent_path() / name;
  try {
    return read_file(folder, is_path(name) ? beside.lexically_normal().string() : name);
  } catch (const InputError& error) {
    object.fail(key, fmt::format("is \"{}\": {}", name, error.what()));
  }
}

/// What the program that `software` names runs, in place of its name.
void put_software(json& machine, const std::string& file) {
  const JsonObject root(machine, file);
  if (!root.has("software") || !root.at("software").is_string()) return;
  File program = named_by(root, "software", programs);
  const JsonObject read(program.content, program.name);
  if (const auto schema = read.require<std::string>("schema"); schema != "frugal.program/1")
    read.fail("schema", fmt::format("is \"{}\"; it must be \"frugal.program/1\"", schema));
  for (const char* said : {"name", "description"}) (void)read.require<std::string>(said);
  for (const char* said : {"schema", "name", "description"}) program.content.erase(said);
  (void)read_software(read);  // its mistakes are its own
  machine["software"] = std::move(program.content);
}

void take(json& machine, const json& base) {
  const auto of = base.at("name").get<std::string>();
  for (const char* group : {"device", "network"}) {
    for (const auto& [key, entry] : base.at(group).items()) {
      if (machine[group].contains(key)) continue;
      machine[group][key] = entry;
      machine[group][key]["source"] =
          fmt::format("carried over from {}: {}", of, entry.at("source").get<std::string>());
    }
  }
  for (const char* key : {"software", "operations"})
    if (!machine.contains(key) && base.contains(key)) machine[key] = base.at(key);
  if (!machine.contains("calibration") && base.contains("calibration"))
    machine["calibration"] =
        fmt::format("as {}: {}", of, base.at("calibration").get<std::string>());
}

/// `above` are the files that have this one as their base, the first one first.
json with_bases(json machine, const std::string& file, std::vector<std::string> above) {
  put_software(machine, file);
  const JsonObject root(machine, file);
  if (!root.has("base")) return machine;
  File base = named_by(root, "base", machines);
  above.push_back(file);
  if (std::find(above.begin(), above.end(), base.name) != above.end())
    root.fail("base",
              fmt::format("makes a machine its own base: {} -> {}; leave it out, or name another",
                          fmt::join(above, " -> "), base.name));
  base.content = with_bases(std::move(base.content), base.name, std::move(above));
  (void)parse_machine(base.content.dump(), base.name);  // its mistakes are its own
  for (const char* group : {"device", "network"}) {
    if (!root.has(group)) machine[group] = json::object();
    (void)root.object(group);
  }
  take(machine, base.content);
  machine.erase("base");
  return machine;
}

}  // namespace

json with_base(json machine, const std::string& file) {
  return with_bases(std::move(machine), file, {});
}

MachineFile find_machine_file(const std::string& name_or_path) {
  File file = read_file(machines, name_or_path);
  return {with_base(std::move(file.content), file.name).dump(), file.name};
}

std::vector<std::string> machine_names() { return names_in(machines); }

}  // namespace frugal::kernels
