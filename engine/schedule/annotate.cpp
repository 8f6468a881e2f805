#include <span>

#include "engine/schedule/schedules.h"

// What is added to the passes of all kinds alike: messages and versions.
namespace frugal::engine {
namespace {

/// The message of one kind that belongs to a pass.
Action message(ActionKind kind, const Action& pass) {
  return {.kind = kind, .chunk = pass.chunk, .microbatch = pass.microbatch};
}

bool is_forward(const Action& pass) { return pass.kind == ActionKind::forward; }

/// Whether what a pass needs, or (not `needs`) what it makes, travels from stage to stage.
bool travels(const PartLayout& layout, int stage, const Action& pass, bool needs) {
  const bool has_message = is_forward(pass) || pass.kind == ActionKind::backward ||
                           pass.kind == ActionKind::input_backward;
  return has_message && elsewhere(layout, {stage, pass.chunk}, is_forward(pass) != needs);
}

}  // namespace

void add_messages(Schedule& schedule) {
  const PartLayout layout = schedule.layout();
  for (int stage = 0; stage < schedule.stages; ++stage) {
    Actions out;
    const std::span<const Action> passes = schedule.actions[stage];
    for (size_t i = 0, end = 0; i < passes.size(); i = end) {
      end = i + (passes[i].beside_next ? 2 : 1);
      const auto made = passes.subspan(i, end - i);
      for (const Action& pass : made)
        if (travels(layout, stage, pass, true))
          out.push_back(message(
              is_forward(pass) ? ActionKind::receive_activation : ActionKind::receive_gradient,
              pass));
      out.insert(out.end(), made.begin(), made.end());
      for (const Action& pass : made)
        if (travels(layout, stage, pass, false))
          out.push_back(message(
              is_forward(pass) ? ActionKind::send_activation : ActionKind::send_gradient, pass));
    }
    schedule.actions[stage] = std::move(out);
  }
}

Schedule one_by_one(Schedule schedule) {
  for (Actions& actions : schedule.actions)
    for (Action& action : actions) action.beside_next = false;
  return schedule;
}

void receive_before_steps(Schedule& schedule) {
  if (schedule.kind.flushes) return;
  for (Actions& actions : schedule.actions)
    for (size_t i = 1; i < actions.size(); ++i)
      if (actions[i - 1].kind == ActionKind::step &&
          actions[i].kind == ActionKind::receive_activation)
        std::swap(actions[i - 1], actions[i]);
}

void assign_versions(Schedule& schedule) {
  const int first = schedule.first_microbatch();
  const auto way = [&](const Action& pass) {
    const int index = (pass.microbatch - first) * schedule.chunks + pass.chunk;
    return static_cast<size_t>(index);
  };
  const int passes_of_stage = (schedule.end_microbatch() - first) * schedule.chunks;
  const auto ways = static_cast<size_t>(passes_of_stage);
  std::vector<int> newest_of_first(ways, -1);  // at the forward of each way on stage 0
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::vector<int> used(ways, -1);
    int newest = schedule.first_batch;
    for (Action& action : schedule.actions[stage]) {
      if (action.kind == ActionKind::step) action.version = ++newest;
      if (!is_pass(action.kind)) continue;
      if (action.kind == ActionKind::forward) {
        int& of_first = newest_of_first[way(action)];
        if (stage == 0) of_first = newest;
        used[way(action)] =
            schedule.kind.version_of({schedule.batch_of(action.microbatch), newest, of_first});
      }
      action.version = used[way(action)];
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

}  // namespace frugal::engine
