#pragma once
#include "engine/schedule/schedule.h"

namespace frugal {

/// Passes of a schedule, all stages, chunks, microbatches and batches together: far more than a
/// pipeline has. A schedule holds all of its actions at once.
inline constexpr int most_passes = 1 << 22;

/// How large a pipeline is and for how long it runs.
struct ScheduleShape {
  int stages = 1;        ///< [d, or p]
  int chunks = 1;        ///< [v] parts of the model on each stage; only interleaved has several
  int microbatches = 1;  ///< [m] of a batch
  int first_batch = 0;   ///< of the run: microbatches and versions count from its beginning
  int batches = 1;       ///< one after another; kinds without a flush fill and drain once for all

  /// Throws InputError that says which rule is broken: sizes positive, several chunks only and
  /// always for interleaved, whose microbatches are a multiple of stages, and microbatches ≥ stages
  /// for 2BW, whose second version would be needed longer otherwise.
  void validate(ScheduleKind kind) const;
};

/// What each stage does: the kind's passes (passes.h), a step after the last of each batch, the
/// messages between stages, and the version of each pass. Throws InputError like validate().
Schedule make_schedule(ScheduleKind kind, const ScheduleShape& shape);

/// Adds the messages: what a pass needs from another stage is received just before it, what another
/// stage needs from it is sent just after it. `schedule` has none.
void add_messages(Schedule& schedule);

/// Says of each pass which version it uses, and of each step which it makes, whatever they said
/// before. A forward uses
///   - with a flush, what all batches before its own have made,
///   - pipedream: the newest that its stage has then,
///   - pipedream-vertical-sync: the newest that stage 0 had at this microbatch's forward,
///   - 2bw: max(batch − 1, 0), the newest that surely exists on all stages (pipedream2bw2021,
///     section 3.1: max(⌊(k − 1)/m⌋ − 1, 0) for microbatch k counted from 1),
/// and a backward the one that its forward used. Needs microbatches and chunks in range; a backward
/// whose forward does not precede it gets −1.
void assign_versions(Schedule& schedule);

/// The same order of actions for as many batches, of which `first_batch` is the first. Versions are
/// those that the kind says there. What check() finds right stays right.
Schedule moved_to(Schedule schedule, int first_batch);

}  // namespace frugal
