#pragma once
#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// Passes of a schedule, all stages, chunks, microbatches and batches together: far more than a
/// pipeline has. A schedule holds all of its actions at once.
inline constexpr int most_passes = 1 << 22;

/// Size of a pipeline, and how long it runs.
struct ScheduleShape {
  int stages = 1;        ///< [d, or p]
  int chunks = 1;        ///< [v] parts of the model on each stage
  int microbatches = 1;  ///< [m] of a batch
  int first_batch = 0;   ///< of the run: microbatches and versions count from its beginning
  int batches = 1;       ///< one after another; kinds without a flush fill and drain once for all
  /// True if passes that the kind makes together are made so, or one after the other.
  bool together = true;

  /// Throws InputError that says which rule is broken: sizes positive, several chunks only and
  /// always for kinds that have them, and as many microbatches as the kind says.
  void validate(const ScheduleKind& kind) const;
  bool operator==(const ScheduleShape&) const = default;
};

/// Actions of each stage: the kind's passes, a step after the last of each batch, the messages
/// between stages, and the version of each pass. Throws InputError like validate().
Schedule make_schedule(const ScheduleKind& kind, const ScheduleShape& shape);

/// Passes and steps alone, without versions, of a shape that is valid.
Schedule make_passes(const ScheduleKind& kind, const ScheduleShape& shape);

/// Adds the messages: what a pass needs from another stage is received just before it, or earlier
/// from the other end of a ring of chunks; what another stage needs from it is sent just after it.
/// Two passes that are made together have those of both before and behind them. `schedule` has
/// none.
void add_messages(Schedule& schedule);

/// Schedule in the same order, in which no passes are made together.
Schedule one_by_one(Schedule schedule);

/// Receives the activation that the pass behind a step needs before the step and not behind it, as
/// a stage does that sends a gradient and receives an activation in one exchange. A schedule that
/// flushes stays as it is: there, what follows a step is another fill of the pipeline.
void receive_before_steps(Schedule& schedule);

/// Says of each pass which version it uses, and of each step which it makes, whatever they said
/// before. A forward uses what the kind says (ScheduleKind::version_of), and a backward what its
/// forward used. Needs microbatches and chunks in range; a backward whose forward does not precede
/// it gets −1.
void assign_versions(Schedule& schedule);

/// Order of actions for as many batches, of which `first_batch` is the first. Versions are
/// those that the kind says there. What check() finds right stays right.
Schedule moved_to(Schedule schedule, int first_batch);

}  // namespace frugal::engine
