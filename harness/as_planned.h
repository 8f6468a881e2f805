#pragma once
#include "engine/schedule/timeline.h"

namespace frugal {

/// How long each kind of action took: medians over all stages, of passes through all chunks of a
/// stage together. The timeline is of a run.
Durations median_durations(const Timeline& timeline);

/// What a run of this schedule would have been if each action had taken its median_durations() and
/// begun as soon as it could: what the run's own timeline is to be compared with.
Timeline as_planned(ScheduleKind kind, const Timeline& timeline);

}  // namespace frugal
