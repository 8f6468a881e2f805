#pragma once
#include "engine/schedule/schedule.h"

namespace frugal::engine {

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

}  // namespace frugal::engine
