#include "harness/place/machine_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/record.h"

namespace frugal::harness {

namespace {

nlohmann::json to_json(const std::vector<Machine::GroupRates>& groups) {
  auto list = nlohmann::json::array();
  for (const Machine::GroupRates& one : groups)
    list.push_back({{"ranks", one.ranks},
                    {"apart", one.apart},
                    {"all_reduce", one.all_reduce},
                    {"all_gather", one.all_gather},
                    {"reduce_scatter", one.reduce_scatter},
                    {"source", "the machine's file"}});
  return list;
}

}  // namespace

bool was_measured(const Machine& machine) { return !machine.operations.empty(); }

std::string hash_of_values(const Machine& machine) {
  std::string values = machine.name;
  for (const auto& parameter : machine.parameters)
    values += fmt::format(" {}={}", parameter.key, parameter.value);
  for (const auto& tile : machine.tiles) values += fmt::format(" {}x{}", tile.m, tile.n);
  if (was_measured(machine)) values += " " + kernels::to_json(machine.operations).dump();
  nlohmann::json attention = kernels::to_json(machine.attention);
  for (nlohmann::json& one : attention) one.erase("source");
  if (!attention.empty()) values += " " + attention.dump();
  if (!machine.groups.empty()) values += " " + to_json(machine.groups).dump();
  return hash_of(values);
}

std::string in_words(const Machine& machine) {
  return machine.description + (machine.calibration.empty() ? "" : "; " + machine.calibration);
}

std::string file_of(const Machine& machine) {
  nlohmann::json file = {{"schema", "frugal.machine/1"},
                         {"name", machine.name},
                         {"description", machine.description},
                         {"device_names", machine.device_names}};
  if (!machine.calibration.empty()) file["calibration"] = machine.calibration;
  for (const Machine::Parameter& parameter : machine.parameters) {
    const size_t dot = parameter.key.find('.');
    file[parameter.key.substr(0, dot)][parameter.key.substr(dot + 1)] = {
        {"value", parameter.value}, {"unit", parameter.unit}, {"source", parameter.source}};
  }
  if (machine.peak_clock)
    file["peak_clock"] = {{"value", machine.peak_clock->value},
                          {"unit", machine.peak_clock->unit},
                          {"source", machine.peak_clock->source}};
  for (const Machine::Tile& tile : machine.tiles)
    file["device"]["tiles"]["value"].push_back({tile.m, tile.n});
  if (was_measured(machine))
    file["operations"] = {{"source", machine.description},
                          {"forms", kernels::to_json(machine.operations)}};
  if (!machine.attention.empty()) file["attention"] = kernels::to_json(machine.attention);
  if (!machine.groups.empty()) file["network"]["groups"] = to_json(machine.groups);
  return file.dump();
}

bool is_known(const Machine& machine) {
  const auto names = machine_names();
  return std::find(names.begin(), names.end(), machine.name) != names.end() &&
         hash_of_values(find_machine(machine.name)) == hash_of_values(machine);
}

std::string label_of(const Machine& machine) {
  if (is_known(machine)) return machine.name;
  return fmt::format("{}#{}", machine.name, hash_of_values(machine).substr(0, 8));
}

}  // namespace frugal::harness
