#pragma once
#include "engine/data/batch.h"
#include "engine/rank.h"
#include "engine/schedule/schedule.h"

/// What it takes to compute with one batch, whether that is a step or not.
namespace frugal::engine {

/// Whether what a rank computes is the model's, so that it must be finite.
bool meaningful(const Rank& rank);
/// What a rank adds to its run's loss: replicas have a part of a batch each, the ranks of a
/// tensor-parallel group all of it. All are summed in the ranks' order once they have ended, so
/// that the bits do not depend on which came first.
double share_of(const Rank& rank, double loss);
double sum_of_shares(const std::vector<double>& shares);

/// Labels that count, at least 1.
double counted(const Batch& batch);
/// `batch` and microbatches behind it without any label, so that every replica has as many, and as
/// many as the schedule needs. They add nothing to a loss or a gradient.
Batch filled(const RunConfig& c, Batch batch);

bool belongs_to_forward(ActionKind kind);
bool computes_gradients(ActionKind kind);
/// What `kept` says of one batch under the newest weights: in this order, or in the run's own where
/// stages have several chunks.
Schedule schedule_of(const RunConfig& c, const ScheduleKind& kind, const Batch& batch, int newest,
                     bool (*kept)(ActionKind));

}  // namespace frugal::engine
