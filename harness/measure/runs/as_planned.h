#pragma once
#include "engine/schedule/timeline.h"
#include "harness/namespace.h"

namespace frugal::harness {

/// The same run where all stages wait for each other in their steps (Optimizer::step): a step
/// begins when the last stage has come to it, and what was before is idle.
Timeline with_steps_begun_together(Timeline timeline);

/// How long each kind of action took: medians over all stages, of passes through all chunks of a
/// stage together. The timeline is of a run.
Durations median_durations(const Timeline& timeline);

/// What a run of this schedule would have been if each action had taken its median_durations() and
/// begun as soon as it could: what the run's own timeline is to be compared with.
Timeline as_planned(const ScheduleKind& kind, const Timeline& timeline);
/// The same of a schedule of as many batches, whichever they are.
Timeline as_planned(const Schedule& schedule, const Timeline& timeline);

}  // namespace frugal::harness
