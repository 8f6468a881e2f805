#pragma once
#include <string>

#include "harness/validate/probe.h"
#include "harness/validate/workbench.h"

namespace frugal::harness {

/// A memory-bound operation of float32 out of cache. Its operands are so many that what one
/// execution has touched is gone from every cache when its turn comes again, and each execution is
/// short: what else the machine does mostly falls between two of them. Bytes are those of the
/// operation's cost.
Probe row_probe(Workbench& bench, const std::string& row);
/// A copy, the rate that all others are held against: "memory_bandwidth".
Probe copy_probe(Workbench& bench);

}  // namespace frugal::harness
