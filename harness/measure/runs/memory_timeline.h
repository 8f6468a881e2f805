#pragma once
#include <string>

#include "harness/measure/runs/trace.h"

namespace frugal::harness {

/// What the first rank of each stage held of each kind of memory, after each change, and the
/// host's memory for it: "frugal.memory/1" in JSON (docs/trace.md). Bytes, and seconds on the
/// device's clock from the beginning of the trace.
std::string memory_to_json(const Trace& trace);

}  // namespace frugal::harness
