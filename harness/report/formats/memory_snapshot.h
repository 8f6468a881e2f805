#pragma once
#include <string>

#include "harness/measure/runs/trace.h"

namespace frugal::harness {

/// What the first rank of each stage took and gave back, as a pickled snapshot of PyTorch's
/// allocator, which https://pytorch.org/memory_viz draws: a device for each stage, from the first
/// byte on. Each allocation is a segment of its own, at an address that none had before it. What
/// only becomes another kind is given back and taken again, and so is never a peak. Frames say
/// kind, layer, microbatch and module (docs/trace.md).
std::string memory_snapshot(const Trace& trace);

}  // namespace frugal::harness
