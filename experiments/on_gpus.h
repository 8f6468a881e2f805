#pragma once
#include <array>

#include "experiments/cases.h"
#include "harness/measure/statistics.h"

namespace frugal::experiments {

/// Steps of a training on GPUs: the first warms them, and the others are enough for an interval.
inline constexpr int64_t steps_on_gpus = 1 + static_cast<int64_t>(interval_minimum);

/// The case on GPUs: with all its ranks where there are as many, otherwise with one rank, or one of
/// each distinct stage of its pipeline, without peers; their communication is modelled on the GPUs'
/// own machine. Skipped where no machine has these GPUs.
Case on_gpus(Case c, const GpuSelection& gpus);

/// Cases of a virtual machine, and where GPUs are selected the same there, whose trainings take at
/// least so many steps.
Cases also_on_gpus(Cases own, int64_t steps);

/// The median of a metric; with its interval where it was measured.
Estimate median_of(const Record& record, const char* metric);

/// A part of a step that was put together from stages which ran alone, in seconds.
struct StepPart {
  const char* name;  ///< in cells
  Estimate (*of)(const Record& record);
};
/// Computation, communication, bubble (LoneStages::parts); the last two with their sources, as
/// computation has that of its setting.
extern const std::array<StepPart, 3> step_parts;
/// Whether a case of this configuration has them in a setting.
bool has_step_parts(const Setting& setting, const RunConfig& config);

}  // namespace frugal::experiments
