#pragma once
#include "harness/measure/case.h"
#include "harness/settings/settings.h"

namespace frugal::harness {

/// The case of `frugal measure` with these settings, resolved to `run` on `target`.
Case training_case(const RunSettings& settings, const TrainingRun& run, const Target& target);

}  // namespace frugal::harness
