#pragma once
#include <string>

#include "harness/cli/flags.h"
#include "harness/measure/timing.h"

namespace frugal::harness {

/// The flags of a command that times cases by turns.
void add_timing_flags(Flags& flags, TimingPlan& timing);
/// The same as they stand in a command: " --samples 20 --budget 60".
std::string timing_flags(const TimingPlan& timing);

}  // namespace frugal::harness
