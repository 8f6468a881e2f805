#pragma once
#include <vector>

#include "harness/place/gpu_state.h"
#include "harness/record/gpu_load.h"
#include "harness/validate/finding.h"

namespace frugal::harness {

/// Judges what the driver says of the GPUs before, in and after the watch: one finding for each GPU
/// and question.
std::vector<Finding> findings_of_gpus(const GpuStates& before, const GpuLoads& meanwhile,
                                      const GpuStates& after);

}  // namespace frugal::harness
