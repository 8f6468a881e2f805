#include "harness/compare/conditions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/measure/timing.h"
#include "harness/settings/config_json.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

/// Adds what an object has, "name.key" where it has objects of its own.
void flatten(const json& value, const std::string& name, Conditions& into) {
  if (value.is_object() && !value.empty())
    for (const auto& [key, inner] : value.items())
      flatten(inner, name.empty() ? key : fmt::format("{}.{}", name, key), into);
  else if (!value.is_null())
    into[name] = value.is_string() ? value.get<std::string>() : value.dump();
}

/// Of the environment, what belongs to the program and not to the machine.
constexpr const char* parts_of_program[] = {"build", "libraries"};

/// What of a GPU's state is set, and does not vary by itself as its temperature does.
constexpr const char* set_of_gpu[] = {"power_cap_watts", "ecc", "mig", "persistence", "numa_node"};

/// Of the GPUs, which driver they have and how they are set.
json settings_of_gpus(const json& state) {
  json settings = json::object();
  if (state.contains("driver")) settings["driver"] = state["driver"];
  if (!state.contains("begin")) return settings;
  for (size_t i = 0; i < state["begin"].size(); ++i)
    for (const char* key : set_of_gpu)
      if (state["begin"][i].contains(key))
        settings[std::to_string(i)][key] = state["begin"][i][key];
  return settings;
}

/// Without what varies by itself.
json environment_of(const Record& record) {
  json environment = json::parse(record.environment);
  environment.erase("load_average");
  environment.erase("gemm_algorithms");
  if (environment.contains("gpu_state"))
    environment["gpu_state"] = settings_of_gpus(environment["gpu_state"]);
  return environment;
}

std::string communication_of(const Record& record) {
  return record.modelled
             ? fmt::format("modelled on {} ({})", record.modelled->machine, record.modelled->hash)
             : "real";
}

}  // namespace

Conditions conditions_of(const Record& record) {
  Conditions conditions;
  if (has_configuration(record.config)) flatten(to_json(record.config), "", conditions);
  for (const auto& [name, value] : record.options) conditions[name] = value;
  for (const StoppingRule& rule : stopping_rules()) conditions.erase(std::string(rule.name));
  json environment = environment_of(record);
  for (const char* key : parts_of_program) environment.erase(key);
  flatten(environment, "", conditions);
  conditions["what"] = record.what;
  conditions["source"] = name_of(record.source);
  conditions["on"] = record.on;
  conditions["device"] = record.device;
  conditions["communication"] = communication_of(record);
  conditions["scale"] = scale_name(record.scale);
  if (!record.machine.empty()) conditions["machine"] = record.machine;
  return conditions;
}

Conditions program_of(const Record& record) {
  Conditions program;
  const json environment = environment_of(record);
  for (const char* key : parts_of_program)
    if (environment.contains(key)) flatten(environment[key], key, program);
  program["program"] = record.program;
  return program;
}

std::vector<Difference> differences(const Conditions& base, const Conditions& candidate) {
  std::set<std::string> names;
  for (const Conditions* side : {&base, &candidate})
    for (const auto& [name, value] : *side) names.insert(name);
  std::vector<Difference> found;
  const auto value_of = [](const Conditions& side, const std::string& name) {
    const auto at = side.find(name);
    return at == side.end() ? "none" : at->second;
  };
  for (const std::string& name : names) {
    Difference difference{name, value_of(base, name), value_of(candidate, name)};
    if (difference.base != difference.candidate) found.push_back(std::move(difference));
  }
  return found;
}

Across::Across(std::vector<std::string> names, const std::vector<Record>& base,
               const std::vector<Record>& candidate)
    : names_(std::move(names)) {
  std::set<std::string> known;
  for (const std::vector<Record>* side : {&base, &candidate})
    for (const Record& record : *side)
      for (const auto& [name, value] : conditions_of(record)) known.insert(name);
  for (const std::string& name : names_) {
    if (name == "source")
      throw InputError(
          "--across source: the seconds of a virtual machine come from a model and measured ones "
          "from a clock, so they are never compared; leave it out");
    const bool any = std::any_of(known.begin(), known.end(), [&](const std::string& condition) {
      return condition == name || condition.starts_with(name + ".");
    });
    if (any) continue;
    const auto similar = nearest(name, {known.begin(), known.end()});
    throw InputError(fmt::format("--across {}: no record has a condition of this name; {}", name,
                                 similar.empty()
                                     ? fmt::format("there are {}", fmt::join(known, ", "))
                                     : fmt::format("did you mean {}?", fmt::join(similar, ", "))));
  }
}

bool Across::has(const std::string& condition) const {
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
    return condition == name || condition.starts_with(name + ".");
  });
}

std::vector<Difference> Across::forbidden(const Conditions& base,
                                          const Conditions& candidate) const {
  std::vector<Difference> found = differences(base, candidate);
  std::erase_if(found, [&](const Difference& difference) { return has(difference.name); });
  return found;
}

}  // namespace frugal::harness
