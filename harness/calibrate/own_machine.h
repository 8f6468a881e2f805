#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/report/commands/peak_report.h"
#include "kernels/virtual/measured_operations.h"

namespace frugal::harness {

/// The processor as a machine for --on virtual:FILE (frugal.machine/1): what was measured of it,
/// and how long each of its operations takes. One device, without links. `command` made it.
nlohmann::json own_machine(const Peaks& peaks, const Target& target, const std::string& name,
                           const std::string& command, const MeasuredOperations& operations);

}  // namespace frugal::harness
