#pragma once
#include <memory>

#include "bench/namespace.h"
#include "harness/place/target.h"

namespace frugal::bench {

/// Adds benchmarks of single calls on a GPU, by its own clock, or on a virtual machine in its
/// place. Their names begin with harness::micro_context::device.
void add_device_benchmarks(const std::shared_ptr<const Target>& target);

}  // namespace frugal::bench
