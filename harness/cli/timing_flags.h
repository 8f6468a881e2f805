#pragma once
#include <string>

#include "harness/cli/flags.h"
#include "harness/measure/timing.h"

namespace frugal::harness {

/// Whether a command judges what it times.
enum class Judges : uint8_t { nothing, verdicts };
/// The flags of a command that times cases by turns.
void add_timing_flags(Flags& flags, TimingPlan& timing, Judges judges = Judges::nothing);
/// Flags as they stand in a command: " --samples 20 --budget 60".
std::string timing_flags(const TimingPlan& timing);

}  // namespace frugal::harness
