#include "harness/place/machine_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/record.h"

namespace frugal::harness {

bool was_measured(const Machine& machine) { return !machine.operations.empty(); }

std::string hash_of_values(const Machine& machine) {
  std::string values = machine.name;
  for (const auto& parameter : machine.parameters)
    values += fmt::format(" {}={}", parameter.key, parameter.value);
  for (const auto& tile : machine.tiles) values += fmt::format(" {}x{}", tile.m, tile.n);
  if (was_measured(machine)) values += " " + to_json(machine.operations).dump();
  return hash_of(values);
}

std::string in_words(const Machine& machine) {
  return machine.description + (machine.calibration.empty() ? "" : "; " + machine.calibration);
}

std::string label_of(const Machine& machine) {
  const std::string hash = hash_of_values(machine);
  const auto names = machine_names();
  const bool own = std::find(names.begin(), names.end(), machine.name) != names.end() &&
                   hash_of_values(find_machine(machine.name)) == hash;
  return own ? machine.name : fmt::format("{}#{}", machine.name, hash.substr(0, 8));
}

}  // namespace frugal::harness
