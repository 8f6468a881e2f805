#include "kernels/virtual/machine_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/support/named_file.h"
#include "kernels/virtual/machine.h"

namespace frugal::kernels {
namespace {

using nlohmann::json;

constexpr NamedFolder machines{"hardware/", "machine"};

void take(json& machine, const json& base) {
  const auto of = base.at("name").get<std::string>();
  for (const char* group : {"device", "network"}) {
    for (const auto& [key, entry] : base.at(group).items()) {
      if (machine[group].contains(key)) continue;
      machine[group][key] = entry;
      machine[group][key].erase("others");  // of the other machine
      machine[group][key]["source"] =
          fmt::format("carried over from {}: {}", of, entry.at("source").get<std::string>());
    }
  }
  if (!machine.contains("operations") && base.contains("operations"))
    machine["operations"] = base.at("operations");
  if (!machine.contains("calibration") && base.contains("calibration"))
    machine["calibration"] =
        fmt::format("as {}: {}", of, base.at("calibration").get<std::string>());
}

/// `above` are the files that have this one as their base, the first one first.
json with_bases(json machine, const std::string& file, std::vector<std::string> above) {
  const JsonObject root(machine, file);
  if (!root.has("base")) return machine;
  NamedFile base = file_named_by(root, "base", machines);
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
  NamedFile file = find_file(machines, name_or_path);
  return {with_base(std::move(file.content), file.name).dump(), file.name};
}

std::vector<std::string> machine_names() { return machines.names(); }

}  // namespace frugal::kernels
