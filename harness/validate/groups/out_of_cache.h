#pragma once
#include <string>

#include "harness/validate/probe.h"
#include "harness/validate/workbench.h"

namespace frugal::harness {

/// A memory-bound operation of float32 out of cache, on a core or a GPU: "memory/gelu". Its
/// operands are so many that what one execution has touched is gone from every cache when its turn
/// comes again, and each execution is short. Bytes are those of the operation's cost.
Probe row_probe(Workbench& bench, const std::string& row);
/// A copy of the same kind, "memory/copy".
Probe copy_probe(Workbench& bench);
/// A copy by all threads, "memory_bandwidth".
Probe bandwidth_probe(Workbench& bench);

}  // namespace frugal::harness
