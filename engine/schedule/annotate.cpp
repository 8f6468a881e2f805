#include <algorithm>
#include <span>

#include "engine/schedule/schedules.h"

// What is added to the passes of all kinds alike: messages and versions.
namespace frugal::engine {
namespace {

/// Message of one kind that belongs to a pass.
Action message(ActionKind kind, const Action& pass) {
  return {.kind = kind, .chunk = pass.chunk, .microbatch = pass.microbatch};
}

bool is_forward(const Action& pass) { return pass.kind == ActionKind::forward; }

/// True if what a pass needs, or (not `needs`) what it makes, travels from stage to stage.
bool travels(const PartLayout& layout, int stage, const Action& pass, bool needs) {
  return pass.kind != ActionKind::weight_backward && is_pass(pass.kind) &&
         elsewhere(layout, {stage, pass.chunk}, is_forward(pass) != needs);
}

/// The passes of one direction of a stage: where the n-th is in its list, and which one each
/// microbatch's and chunk's is.
struct Turns {
  std::vector<size_t> index;
  std::vector<size_t> nth;
};

/// Number of a microbatch's way through a chunk; of the end microbatch: how many ways there are.
size_t way_of(const Schedule& schedule, int microbatch, int chunk) {
  const auto nth = static_cast<size_t>(microbatch - schedule.first_microbatch());
  return nth * static_cast<size_t>(schedule.chunks) + static_cast<size_t>(chunk);
}

Turns turns_of(const Schedule& schedule, int stage, bool forward) {
  Turns turns;
  turns.nth.resize(way_of(schedule, schedule.end_microbatch(), 0));
  const Actions& passes = schedule.actions[static_cast<size_t>(stage)];
  for (size_t i = 0; i < passes.size(); ++i) {
    if (is_forward(passes[i]) != forward || !is_pass(passes[i].kind) ||
        passes[i].kind == ActionKind::weight_backward)
      continue;
    turns.nth[way_of(schedule, passes[i].microbatch, passes[i].chunk)] = turns.index.size();
    turns.index.push_back(i);
  }
  return turns;
}

/// A message, and the pass before which it is received.
struct Receive {
  size_t before;
  Action message;
};

/// Messages that a stage receives, in order: each just before the pass that needs it. A message
/// from the other end of a ring of chunks may be made many passes earlier, and would keep its
/// sender waiting: it is received `stages` passes behind the one that makes it, counted in its
/// direction, as when rounds are of as many microbatches as there are stages.
std::vector<Receive> receives_of(const Schedule& schedule, int stage) {
  const PartLayout layout = schedule.layout();
  const Actions& passes = schedule.actions[static_cast<size_t>(stage)];
  std::vector<Receive> receives;
  for (size_t i = 0; i < passes.size(); ++i)
    if (travels(layout, stage, passes[i], true))
      receives.push_back({i, message(is_forward(passes[i]) ? ActionKind::receive_activation
                                                           : ActionKind::receive_gradient,
                                     passes[i])});
  const int last = schedule.stages - 1;
  if (schedule.chunks == 1 || layout.placement != Placement::around || last == 0) return receives;
  for (const bool forward : {true, false}) {
    if (stage != (forward ? 0 : last)) continue;
    const Turns here = turns_of(schedule, stage, forward),
                there = turns_of(schedule, last - stage, forward);
    for (Receive& receive : receives) {
      const Action& pass = passes[receive.before];
      if (is_forward(pass) != forward) continue;
      const auto maker = layout.neighbour({stage, pass.chunk}, !forward);
      if (maker->stage != last - stage || (last == 1 && maker->chunk == pass.chunk)) continue;
      const size_t made = there.nth[way_of(schedule, pass.microbatch, maker->chunk)];
      const size_t then = made + static_cast<size_t>(schedule.stages);
      const size_t own = here.nth[way_of(schedule, pass.microbatch, pass.chunk)];
      receive.before = here.index[std::min(then, own)];
    }
  }
  std::ranges::stable_sort(receives, {}, &Receive::before);
  return receives;
}

}  // namespace

void add_messages(Schedule& schedule) {
  const PartLayout layout = schedule.layout();
  std::vector<Actions> all;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    Actions out;
    const std::span<const Action> passes = schedule.actions[static_cast<size_t>(stage)];
    const std::vector<Receive> receives = receives_of(schedule, stage);
    auto next = receives.begin();
    for (size_t i = 0, end = 0; i < passes.size(); i = end) {
      end = i + (passes[i].beside_next ? 2 : 1);
      const auto made = passes.subspan(i, end - i);
      for (; next != receives.end() && next->before < end; ++next) out.push_back(next->message);
      out.insert(out.end(), made.begin(), made.end());
      for (const Action& pass : made)
        if (travels(layout, stage, pass, false))
          out.push_back(message(
              is_forward(pass) ? ActionKind::send_activation : ActionKind::send_gradient, pass));
    }
    all.push_back(std::move(out));
  }
  schedule.actions = std::move(all);
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
  const size_t ways = way_of(schedule, schedule.end_microbatch(), 0);
  std::vector<int> newest_of_first(ways, -1);  // at the forward of each way on stage 0
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::vector<int> used(ways, -1);
    int newest = schedule.first_batch;
    for (Action& action : schedule.actions[stage]) {
      if (action.kind == ActionKind::step) action.version = ++newest;
      if (!is_pass(action.kind)) continue;
      const size_t way = way_of(schedule, action.microbatch, action.chunk);
      if (action.kind == ActionKind::forward) {
        int& of_first = newest_of_first[way];
        if (stage == 0) of_first = newest;
        used[way] =
            schedule.kind.version_of({schedule.batch_of(action.microbatch), newest, of_first});
      }
      action.version = used[way];
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
