#include "engine/schedule/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "engine/schedule/passes.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

[[noreturn]] void fail(const ScheduleKind& kind, const std::string& message) {
  throw InputError(fmt::format("schedule {}: {}", kind.name, message));
}

/// The passes of a fill and drain, each batch's last one followed by a step.
void append(const Passes& passes, int first_microbatch, const Schedule& schedule, bool together,
            Actions& out) {
  int until_step = schedule.microbatches * schedule.chunks;
  for (Action action : passes.actions()) {
    action.microbatch += first_microbatch;
    action.beside_next = action.beside_next && together;
    out.push_back(action);
    if (!completes_gradient(action.kind) || --until_step > 0) continue;
    out.push_back({.kind = ActionKind::step});
    until_step = schedule.microbatches * schedule.chunks;
  }
}

Actions stage_actions(const Schedule& schedule, int stage, bool together) {
  const StageFill fill = schedule.fill(stage);
  const Passes passes = schedule.kind.passes(fill);
  Actions out;
  for (int i = 0; i < schedule.fills(); ++i)
    append(passes, schedule.first_microbatch() + i * fill.microbatches, schedule, together, out);
  return out;
}

/// Requires as many microbatches and chunks as the kind takes.
void validate_traits(const ScheduleKind& kind, const ScheduleShape& shape) {
  const int stages = shape.stages, chunks = shape.chunks, microbatches = shape.microbatches;
  if (kind.has_chunks && kind.chunks == 0 && chunks == 1)
    fail(kind, fmt::format("chunks is 1; it must be at least 2{}",
                           kind.with_one_chunk.empty()
                               ? ""
                               : fmt::format(" (with one chunk this is {})", kind.with_one_chunk)));
  if (!kind.has_chunks && chunks > 1)
    fail(kind, fmt::format("chunks is {}; only {} has more than 1", chunks,
                           fmt::join(ScheduleKind::names(&ScheduleKind::has_chunks), " or ")));
  if (kind.chunks > 0 && chunks != kind.chunks)
    fail(kind, fmt::format("chunks is {}; it must be {}", chunks, kind.chunks));
  const int times = kind.least_per_stage;
  if (int64_t{microbatches} < int64_t{times} * stages)
    fail(kind, fmt::format("microbatches ({}) must be at least {}stages ({}): {}", microbatches,
                           times > 1 ? fmt::format("{} x ", times) : "", stages, kind.why_least));
}

}  // namespace

void ScheduleShape::validate(const ScheduleKind& kind) const {
  const auto positive = [&](std::string_view what, int value) {
    if (value < 1) fail(kind, fmt::format("{} is {}; it must be at least 1", what, value));
  };
  positive("stages", stages);
  positive("chunks", chunks);
  positive("microbatches", microbatches);
  positive("batches", batches);
  if (first_batch < 0)
    fail(kind, fmt::format("the first batch is {}; it must be at least 0", first_batch));
  validate_traits(kind, *this);
  const double passes = 1.0 * stages * chunks * microbatches * batches;
  if (passes > most_passes)
    fail(kind, fmt::format("stages x chunks x microbatches x batches is {:.0f}; it must be at most "
                           "{}",
                           passes, most_passes));
  if ((1.0 * first_batch + batches) * microbatches > std::numeric_limits<int>::max())
    fail(kind, fmt::format("the first batch is {}, whose microbatches are too many to count",
                           first_batch));
}

Schedule make_passes(const ScheduleKind& kind, const ScheduleShape& shape) {
  Schedule schedule = {.kind = kind,
                       .stages = shape.stages,
                       .chunks = shape.chunks,
                       .microbatches = shape.microbatches,
                       .first_batch = shape.first_batch,
                       .batches = shape.batches,
                       .actions = {}};
  for (int stage = 0; stage < shape.stages; ++stage)
    schedule.actions.push_back(stage_actions(schedule, stage, shape.together));
  return schedule;
}

Schedule make_schedule(const ScheduleKind& kind, const ScheduleShape& shape) {
  shape.validate(kind);
  Schedule schedule = make_passes(kind, shape);
  add_messages(schedule);
  assign_versions(schedule);
  return schedule;
}

}  // namespace frugal::engine
