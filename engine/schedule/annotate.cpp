#include <algorithm>

#include "engine/schedule/schedules.h"

// What is added to the passes of all kinds alike: messages and versions.
namespace frugal {
namespace {

bool elsewhere(const std::optional<Peer>& peer, int stage) {
  return peer.has_value() && peer->stage != stage;
}

/// The message of one kind that belongs to a pass.
Action message(ActionKind kind, const Action& pass) {
  return {.kind = kind, .chunk = pass.chunk, .microbatch = pass.microbatch};
}

/// The version that a microbatch's forward uses; `newest` is what the stage that decides has.
int version_for(const Schedule& schedule, int microbatch, int newest) {
  const int batch = schedule.batch_of(microbatch);
  switch (schedule.kind) {
    case ScheduleKind::two_buffered:
      return std::max(batch - 1, 0);
    case ScheduleKind::pipedream:
    case ScheduleKind::pipedream_vertical_sync:
      return newest;
    default:
      return batch;
  }
}

}  // namespace

void add_messages(Schedule& schedule) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    Actions out;
    for (const Action& pass : schedule.actions[stage]) {
      const bool forward = pass.kind == ActionKind::forward;
      const bool travels =
          forward || pass.kind == ActionKind::backward || pass.kind == ActionKind::input_backward;
      if (travels && elsewhere(neighbour(schedule, stage, pass.chunk, !forward), stage))
        out.push_back(
            message(forward ? ActionKind::receive_activation : ActionKind::receive_gradient, pass));
      out.push_back(pass);
      if (travels && elsewhere(neighbour(schedule, stage, pass.chunk, forward), stage))
        out.push_back(
            message(forward ? ActionKind::send_activation : ActionKind::send_gradient, pass));
    }
    schedule.actions[stage] = std::move(out);
  }
}

void assign_versions(Schedule& schedule) {
  const int first = schedule.first_microbatch();
  const size_t microbatches = schedule.end_microbatch() - first;
  const bool bound = schedule.kind == ScheduleKind::pipedream_vertical_sync;
  // What the forward of each microbatch through each chunk used; of stage 0, where all are bound.
  std::vector<int> used(microbatches * schedule.chunks, -1);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (!bound) std::fill(used.begin(), used.end(), -1);
    int newest = schedule.first_batch;
    for (Action& action : schedule.actions[stage]) {
      if (action.kind == ActionKind::step) action.version = ++newest;
      if (!is_pass(action.kind)) continue;
      int& version = used[(action.microbatch - first) * schedule.chunks + action.chunk];
      if (action.kind == ActionKind::forward && (stage == 0 || !bound))
        version = version_for(schedule, action.microbatch, newest);
      action.version = version;
    }
  }
}

Schedule moved_to(Schedule schedule, int first_batch) {
  const int by = (first_batch - schedule.first_batch) * schedule.microbatches;
  schedule.first_batch = first_batch;
  for (Actions& actions : schedule.actions)
    for (Action& action : actions)
      if (action.kind != ActionKind::step) action.microbatch += by;
  assign_versions(schedule);
  return schedule;
}

}  // namespace frugal
