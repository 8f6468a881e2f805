#include "engine/schedule/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/schedule/passes.h"
#include "kernels/support/error.h"

namespace frugal {
namespace {

/// The passes of one stage through `microbatches` microbatches that follow each other without a
/// flush.
Passes passes_of(ScheduleKind kind, int stage, const ScheduleShape& shape, int microbatches) {
  switch (kind) {
    case ScheduleKind::inter_layer:
      return inter_layer(microbatches);
    case ScheduleKind::gpipe:
      return gpipe(microbatches);
    case ScheduleKind::interleaved:
      return interleaved(stage, shape.stages, shape.chunks, microbatches);
    case ScheduleKind::zero_bubble_h1:
      return zero_bubble_h1(stage, shape.stages, microbatches);
    case ScheduleKind::zero_bubble_h2:
      return zero_bubble_h2(stage, shape.stages, microbatches);
    case ScheduleKind::one_forward_one_backward:
    case ScheduleKind::pipedream:
    case ScheduleKind::pipedream_vertical_sync:
    case ScheduleKind::two_buffered:
      return one_forward_one_backward(stage, shape.stages, microbatches);
  }
  return {};
}

/// The passes of a fill and drain, each batch's last one followed by a step.
void append(const Passes& passes, int first_microbatch, const Schedule& schedule, Actions& out) {
  int until_step = schedule.microbatches * schedule.chunks;
  for (Action action : passes.actions()) {
    action.microbatch += first_microbatch;
    out.push_back(action);
    if (!completes_gradient(action.kind) || --until_step > 0) continue;
    out.push_back({.kind = ActionKind::step});
    until_step = schedule.microbatches * schedule.chunks;
  }
}

Actions stage_actions(const Schedule& schedule, int stage, const ScheduleShape& shape) {
  const int fills = flushes(schedule.kind) ? schedule.batches : 1;
  const int microbatches = schedule.microbatches * (schedule.batches / fills);
  const Passes passes = passes_of(schedule.kind, stage, shape, microbatches);
  Actions out;
  for (int fill = 0; fill < fills; ++fill)
    append(passes, schedule.first_microbatch() + fill * microbatches, schedule, out);
  return out;
}

}  // namespace

void ScheduleShape::validate(ScheduleKind kind) const {
  const auto require = [kind](bool holds, const std::string& message) {
    if (!holds) throw InputError(fmt::format("schedule {}: {}", name_of(kind), message));
  };
  const auto positive = [&](std::string_view name, int value) {
    require(value >= 1, fmt::format("{} is {}; it must be at least 1", name, value));
  };
  positive("stages", stages);
  positive("chunks", chunks);
  positive("microbatches", microbatches);
  positive("batches", batches);
  require(first_batch >= 0,
          fmt::format("the first batch is {}; it must be at least 0", first_batch));
  if (has_chunks(kind)) {
    require(chunks >= 2, "chunks is 1; it must be at least 2 (with one chunk this is 1f1b)");
    require(
        microbatches % stages == 0,
        fmt::format("microbatches ({}) must be divisible by stages ({})", microbatches, stages));
  } else {
    require(chunks == 1, fmt::format("chunks is {}; only interleaved has more than 1", chunks));
  }
  if (kind == ScheduleKind::two_buffered)
    require(microbatches >= stages,
            fmt::format("microbatches ({}) must be at least stages ({}): with fewer, two versions "
                        "of the weights are not enough",
                        microbatches, stages));
  const double passes = 1.0 * stages * chunks * microbatches * batches;
  require(passes <= most_passes,
          fmt::format("stages x chunks x microbatches x batches is {:.0f}; it must be at most {}",
                      passes, most_passes));
  require(
      (1.0 * first_batch + batches) * microbatches <= std::numeric_limits<int>::max(),
      fmt::format("the first batch is {}, whose microbatches are too many to count", first_batch));
}

Schedule make_schedule(ScheduleKind kind, const ScheduleShape& shape) {
  shape.validate(kind);
  Schedule schedule = {.kind = kind,
                       .stages = shape.stages,
                       .chunks = shape.chunks,
                       .microbatches = shape.microbatches,
                       .first_batch = shape.first_batch,
                       .batches = shape.batches,
                       .actions = {}};
  for (int stage = 0; stage < shape.stages; ++stage)
    schedule.actions.push_back(stage_actions(schedule, stage, shape));
  add_messages(schedule);
  assign_versions(schedule);
  return schedule;
}

}  // namespace frugal
