#include "harness/cli/machine_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/place/target.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"

namespace frugal::harness {

void MachineFlags::add_to(Flags& flags, const std::string& help) {
  flags.text("--hardware", hardware_, "NAME|FILE", help);
  flags.text("--on", on_, "virtual:MACHINE", "The same machine by the name of a place to run");
}

std::string MachineFlags::name() const {
  if (!on_.empty() && device_kind(on_) != DeviceKind::simulated)
    throw InputError(fmt::format(
        "--on is {}, and this command is about a described machine; give virtual:MACHINE", on_));
  std::string name = machine_named({.on = on_, .hardware = hardware_});
  if (name.empty())
    throw InputError(
        fmt::format("--hardware is missing; give one of {}, or a JSON file (--on virtual:MACHINE "
                    "says the same)",
                    fmt::join(machine_names(), ", ")));
  return name;
}

std::string place_named(const std::string& on, const std::string& hardware) {
  if (hardware.empty()) return on;
  if (!on.empty() && device_kind(on) != DeviceKind::simulated)
    throw InputError(
        fmt::format("--hardware is {}, a described machine, and --on is {}; leave one of them out",
                    hardware, on));
  return "virtual:" + machine_named({.on = on, .hardware = hardware});
}

}  // namespace frugal::harness
