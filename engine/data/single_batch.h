#pragma once
#include "engine/data/batch.h"
#include "engine/rank.h"
#include "engine/schedule/schedule.h"

/// Helpers to compute with one batch, in a step or without one.
namespace frugal::engine {

/// True if a rank computes the model's values, which must be finite.
bool meaningful(const Rank& rank);
/// A rank's share of its run's loss: replicas have a part of a batch each, the ranks of a
/// tensor-parallel group all of it. Shares are summed in the ranks' order once all have ended, so
/// that the bits do not depend on which came first.
double share_of(const Rank& rank, double loss);
double sum_of_shares(const std::vector<double>& shares);

/// Number of labels that count, at least 1.
double counted(const Batch& batch);
/// Appends microbatches without labels, so that every replica has equally many, and as many as the
/// schedule needs. They add nothing to a loss or a gradient.
Batch filled(const RunConfig& c, Batch batch);

/// The rank's part of a microbatch's tokens or labels, [s/c, b] of [s, b]. Where the device has no
/// values, `values` may be empty.
Tensor local_integers(const RankAt& at, const std::vector<int32_t>& values);

bool belongs_to_forward(ActionKind kind);
bool computes_gradients(ActionKind kind);
/// Schedule of the actions of one batch that `kept` accepts, under the newest weights: of this
/// kind, or of the run's own where stages have several chunks.
Schedule schedule_of(const RunConfig& c, const ScheduleKind& kind, const Batch& batch, int newest,
                     bool (*kept)(ActionKind));

}  // namespace frugal::engine
