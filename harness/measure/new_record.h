#pragma once
#include <string>

#include "harness/measure/case.h"
#include "harness/measure/timing.h"
#include "harness/place/target.h"
#include "harness/record/record.h"

namespace frugal::harness {

/// All that is known of a case's record before the case is run: what decides the result, and the
/// fingerprint of it. Every record begins here. `command` reproduces all cases of the artifact
/// (Case::command, that of one). A case that cannot be done there (Case::skip, Target::why_not) is
/// skipped. Throws InputError for a configuration that is wrong anywhere.
Record new_record(const std::string& artifact, const Case& c, const Target& target,
                  const TimingPlan& timing, const std::string& command);

}  // namespace frugal::harness
