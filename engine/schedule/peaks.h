#pragma once
#include "engine/schedule/schedule.h"

namespace frugal {

/// The most activations that a stage holds at once, when each pass forward keeps `whole` until its
/// backward or input backward, and an input backward leaves `for_weights` of them until the weight
/// backward. (1, 0) counts microbatches in flight, times chunks; Qi et al.'s M_B and M_W give their
/// table 2.
double peak_activations(const Actions& actions, double whole, double for_weights);

/// The most microbatches, times chunks, between a forward and its backward or input backward.
int peak_in_flight(const Actions& actions);

/// The most versions of its weights that a stage must keep at once: the newest, and the older ones
/// that a later pass uses. `first_batch` versions were made before the schedule.
int peak_versions(const Actions& actions, int first_batch);

/// What the papers say the two are at most, which the checker holds every schedule to.
///   In flight: 1 for inter-layer parallelism, the microbatches of a batch for GPipe,
///   min(stages − stage, microbatches) for 1F1B and all kinds of its order and ZB-H1
///   (pipedream2bw2021, section 3.2), min(2 (stages − stage) − 1, microbatches) for ZB-H2 (Qi et
///   al., table 2), and for interleaved one more than its warm-up.
///   Versions: 1 with a flush, 2 for 2BW, stages − stage for PipeDream's stashes, stages with
///   vertical sync.
int in_flight_limit(const Schedule& schedule, int stage);
int versions_limit(const Schedule& schedule, int stage);

}  // namespace frugal
