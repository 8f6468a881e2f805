#include "engine/schedule/early_forwards.h"

#include <algorithm>
#include <limits>
#include <span>

namespace frugal::engine {
namespace {

/// True if a stage receives something of a batch before the step of one before it. A schedule from
/// a file may: then nobody can tell which messages were sent before a step was validated.
bool receives_ahead(const Schedule& schedule, const Actions& actions) {
  int batch = schedule.first_batch;
  return std::ranges::any_of(actions, [&](const Action& action) {
    if (action.kind == ActionKind::step) ++batch;
    return is_message(action.kind) && schedule.batch_of(action.microbatch) > batch;
  });
}

/// Forward passes of chunk 0 that these actions begin with, each behind its receive and before its
/// send.
int leading_forwards(std::span<const Action> actions, bool receives) {
  const std::vector<ActionKind> kinds =
      receives ? std::vector{ActionKind::receive_activation, ActionKind::forward,
                             ActionKind::send_activation}
               : std::vector{ActionKind::forward, ActionKind::send_activation};
  int passes = 0;
  for (; actions.size() >= kinds.size(); ++passes, actions = actions.subspan(kinds.size()))
    for (size_t i = 0; i < kinds.size(); ++i)
      if (actions[i].kind != kinds[i] || actions[i].chunk != 0 ||
          actions[i].microbatch != actions.front().microbatch)
        return passes;
  return passes;
}

}  // namespace

EarlyForwards::EarlyForwards(const Schedule& schedule) {
  const auto batches = static_cast<size_t>(schedule.batches);
  std::vector<int> before(batches, std::numeric_limits<int>::max());  // of the stage before
  if (std::ranges::any_of(schedule.actions,
                          [&](const Actions& each) { return receives_ahead(schedule, each); }))
    before.assign(batches, 0);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const Actions& actions = schedule.actions[static_cast<size_t>(stage)];
    std::vector<int> passes(batches, 0);
    size_t batch = 0;
    for (size_t i = 0; i < actions.size() && stage + 1 < schedule.stages; ++i) {
      if (actions[i].kind != ActionKind::step) continue;
      const int most = leading_forwards(std::span(actions).subspan(i + 1), stage > 0);
      passes.at(batch) = std::min(most, before[batch]);
      ++batch;
    }
    before = passes;
    passes_.push_back(std::move(passes));
  }
}

}  // namespace frugal::engine
