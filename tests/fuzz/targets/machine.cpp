#include "kernels/virtual/machine.h"

#include <nlohmann/json.hpp>

#include "harness/calibrate/fit.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// All numbers of a machine, as its file has them.
nlohmann::json numbers_of(const kernels::Machine& machine) {
  nlohmann::json numbers = {{"name", machine.name},
                            {"operations", kernels::to_json(machine.operations)}};
  for (const kernels::Machine::Parameter& parameter : machine.parameters)
    numbers[parameter.key] = {parameter.value, parameter.unit, parameter.source};
  for (const kernels::Machine::Tile& tile : machine.tiles)
    numbers["tiles"].push_back({tile.m, tile.n});
  return numbers;
}

/// A file of a machine, and what of it was fitted. With what it takes of its base in it, it is the
/// same machine; and with its own numbers in the place of them.
void read_machine(const std::string& path) {
  const kernels::Machine machine = kernels::find_machine(path);
  (void)harness::find_fit(path);
  const std::string whole = scratch_file("again.json", kernels::find_machine_file(path).text);
  require_same(numbers_of(machine), numbers_of(kernels::find_machine(whole)));
  std::map<std::string, double> values;
  for (const kernels::Machine::Parameter& parameter : machine.parameters)
    values[parameter.key] = parameter.value;
  require_same(numbers_of(machine), numbers_of(kernels::find_machine(path, values)));
}

const bool machine_added = add_target({"machine", "machine.json", read_machine});

}  // namespace
}  // namespace frugal::testing
