#include <fmt/format.h>

#include "engine/schedule/check_parts.h"

namespace frugal::engine {
namespace {

/// What is wrong with an action by itself; empty where nothing is.
std::string meaningless(const Schedule& schedule, int stage, const Action& action) {
  if (action.chunk < 0 || action.chunk >= schedule.chunks)
    return fmt::format("there is no chunk {}; chunks are 0 to {}", action.chunk,
                       schedule.chunks - 1);
  if (action.kind == ActionKind::step)
    return action.microbatch == -1 ? "" : "a step has no microbatch";
  const int first = schedule.first_microbatch(), end = schedule.end_microbatch();
  if (action.microbatch < first || action.microbatch >= end)
    return fmt::format("there is no microbatch {}; these batches' are {} to {}", action.microbatch,
                       first, end - 1);
  if (!is_message(action.kind)) return "";
  if (action.version != -1) return "a message has no version";
  const auto peer = peer_of(schedule.layout(), stage, action);
  if (!peer) return "the model ends here; there is no stage at the other end of this message";
  if (peer->stage == stage) return "the next part is on the same stage; nothing is to be sent";
  return "";
}

/// Every kind of action that a microbatch's way through a chunk of this stage must have.
std::vector<ActionKind> needed(const Schedule& schedule, int stage, int chunk, bool split) {
  std::vector<ActionKind> kinds = {ActionKind::forward};
  if (split)
    kinds.insert(kinds.end(), {ActionKind::input_backward, ActionKind::weight_backward});
  else
    kinds.push_back(ActionKind::backward);
  const auto goes_on = [&](bool ahead) {
    return elsewhere(schedule.layout(), {stage, chunk}, ahead).has_value();
  };
  if (goes_on(false))
    kinds.insert(kinds.end(), {ActionKind::receive_activation, ActionKind::send_gradient});
  if (goes_on(true))
    kinds.insert(kinds.end(), {ActionKind::send_activation, ActionKind::receive_gradient});
  return kinds;
}

void check_stage(const Schedule& schedule, int stage, Findings& findings) {
  const ActionIndex index(schedule, stage);
  const Actions& actions = schedule.actions[stage];
  int steps = 0;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const Action& action = actions[i];
    if (action.kind == ActionKind::step && ++steps > schedule.batches)
      findings.push_back(finding(schedule, stage, i, "there is one step for each batch only"));
    if (action.kind == ActionKind::step) continue;
    const int first = index.find(action.kind, action.microbatch, action.chunk);
    if (first != i)
      findings.push_back(
          finding(schedule, stage, i, fmt::format("it was done before, as action {}", first)));
    if (action.kind == ActionKind::backward &&
        (index.find(ActionKind::input_backward, action.microbatch, action.chunk) >= 0 ||
         index.find(ActionKind::weight_backward, action.microbatch, action.chunk) >= 0))
      findings.push_back(finding(schedule, stage, i, "this backward is done in two parts, too"));
  }
  if (steps < schedule.batches)
    findings.push_back(
        finding(stage, fmt::format("it has {} steps; it needs one for each of {} batches", steps,
                                   schedule.batches)));
  for (int k = schedule.first_microbatch(); k < schedule.end_microbatch(); ++k)
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      if (findings.size() >= most_findings) return;
      const bool split = index.find(ActionKind::input_backward, k, chunk) >= 0 ||
                         index.find(ActionKind::weight_backward, k, chunk) >= 0;
      for (const ActionKind kind : needed(schedule, stage, chunk, split))
        if (index.find(kind, k, chunk) < 0)
          findings.push_back(missing(schedule, stage,
                                     {.kind = kind, .chunk = chunk, .microbatch = k},
                                     "it is missing; it must be there once"));
    }
}

}  // namespace

ActionIndex::ActionIndex(const Schedule& schedule, int stage)
    : first_(schedule.first_microbatch()),
      microbatches_(schedule.end_microbatch() - first_),
      chunks_(schedule.chunks),
      positions_(slot(ActionKind::step, first_, 0), -1) {
  const Actions& actions = schedule.actions[stage];
  for (int i = static_cast<int>(actions.size()) - 1; i >= 0; --i)
    if (actions[i].kind != ActionKind::step)
      positions_[slot(actions[i].kind, actions[i].microbatch, actions[i].chunk)] = i;
}

void check_contents(const Schedule& schedule, Findings& findings) {
  if (static_cast<int>(schedule.actions.size()) != schedule.stages) {
    findings.push_back(
        finding(-1, fmt::format("there are actions of {} stages; there are {} stages",
                                schedule.actions.size(), schedule.stages)));
    return;
  }
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int i = 0; i < static_cast<int>(schedule.actions[stage].size()); ++i) {
      std::string reason = meaningless(schedule, stage, schedule.actions[stage][i]);
      if (!reason.empty()) findings.push_back(finding(schedule, stage, i, std::move(reason)));
    }
  if (!findings.empty()) return;
  for (int stage = 0; stage < schedule.stages; ++stage) check_stage(schedule, stage, findings);
}

}  // namespace frugal::engine
