#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/schedule/check_parts.h"
#include "engine/schedule/dependencies.h"
#include "engine/schedule/text.h"

namespace frugal::engine {
namespace {

/// An order that must hold within a stage between actions of the same microbatch and chunk.
struct Rule {
  ActionKind first, second;
  std::string_view reason;
};
constexpr Rule rules[] = {
    {ActionKind::forward, ActionKind::backward, "its forward does not precede it"},
    {ActionKind::forward, ActionKind::input_backward, "its forward does not precede it"},
    {ActionKind::input_backward, ActionKind::weight_backward,
     "its input backward does not precede it"},
    {ActionKind::receive_activation, ActionKind::forward,
     "its activation is not received before it"},
    {ActionKind::receive_gradient, ActionKind::backward, "its gradient is not received before it"},
    {ActionKind::receive_gradient, ActionKind::input_backward,
     "its gradient is not received before it"},
    {ActionKind::forward, ActionKind::send_activation, "what it sends is not computed before it"},
    {ActionKind::backward, ActionKind::send_gradient, "what it sends is not computed before it"},
    {ActionKind::input_backward, ActionKind::send_gradient,
     "what it sends is not computed before it"},
};

void check_rules(const Schedule& schedule, int stage, const ActionIndex& index,
                 Findings& findings) {
  const Actions& actions = schedule.actions[stage];
  for (int i = 0; i < static_cast<int>(actions.size()); ++i)
    for (const Rule& rule : rules)
      if (actions[i].kind == rule.second &&
          index.find(rule.first, actions[i].microbatch, actions[i].chunk) > i)
        findings.push_back(finding(schedule, stage, i, std::string(rule.reason)));
}

/// Where parts of one stage follow each other, they do so without a message.
void check_parts(const Schedule& schedule, int stage, const ActionIndex& index,
                 Findings& findings) {
  const Actions& actions = schedule.actions[stage];
  const auto made = [&](bool forward, int microbatch, int chunk) {
    if (forward) return index.find(ActionKind::forward, microbatch, chunk);
    return std::max(index.find(ActionKind::backward, microbatch, chunk),
                    index.find(ActionKind::input_backward, microbatch, chunk));
  };
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const Action& action = actions[i];
    const bool forward = action.kind == ActionKind::forward;
    if (!forward && action.kind != ActionKind::backward &&
        action.kind != ActionKind::input_backward)
      continue;
    const auto before = schedule.layout().neighbour({stage, action.chunk}, !forward);
    if (before && before->stage == stage && made(forward, action.microbatch, before->chunk) > i)
      findings.push_back(finding(
          schedule, stage, i, fmt::format("chunk {}, which it needs, comes later", before->chunk)));
  }
}

/// The i-th step comes after the last pass of the i-th batch.
void check_steps(const Schedule& schedule, int stage, Findings& findings) {
  const Actions& actions = schedule.actions[stage];
  std::vector<int> last(schedule.batches, -1);
  for (int i = 0; i < static_cast<int>(actions.size()); ++i)
    if (is_pass(actions[i].kind))
      last[schedule.batch_of(actions[i].microbatch) - schedule.first_batch] = i;
  int batch = 0;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    if (actions[i].kind != ActionKind::step) continue;
    if (last[batch] > i)
      findings.push_back(
          finding(schedule, stage, i,
                  fmt::format("{} of its batch comes after it, as action {}",
                              to_text(actions[last[batch]], schedule.chunks), last[batch])));
    ++batch;
  }
}

/// What is wrong with two actions that are said to be made together; empty where nothing is. Of
/// what one microbatch needs of another there is nothing, so neither waits for the other.
std::string not_together(const Action& first, const Action* second) {
  if (first.kind != ActionKind::forward)
    return "what is made together with what follows is a forward pass";
  if (second == nullptr || !is_pass(second->kind) || second->kind == ActionKind::forward)
    return "a backward pass must follow it, which is made together with it";
  if (second->beside_next) return "two passes are made together, not three";
  if (second->microbatch == first.microbatch)
    return "the pass that is made together with it is of the same microbatch, and needs what it "
           "makes";
  if (second->version != first.version)
    return fmt::format(
        "the pass that is made together with it uses version {}; a stage computes with one version "
        "at a time",
        second->version);
  return "";
}

void check_together(const Schedule& schedule, int stage, Findings& findings) {
  const Actions& actions = schedule.actions[stage];
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    if (!actions[i].beside_next) continue;
    const bool last = i + 1 == static_cast<int>(actions.size());
    std::string reason = not_together(actions[i], last ? nullptr : &actions[i + 1]);
    if (!reason.empty()) findings.push_back(finding(schedule, stage, i, std::move(reason)));
  }
}

}  // namespace

void check_order(const Schedule& schedule, Findings& findings) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const ActionIndex index(schedule, stage);
    check_rules(schedule, stage, index, findings);
    check_parts(schedule, stage, index, findings);
    check_steps(schedule, stage, findings);
    check_together(schedule, stage, findings);
  }
}

void check_channels(const Schedule& schedule, Findings& findings) {
  // By sender, receiver and what is carried: what was sent, as its receiver names it.
  std::map<std::tuple<int, int, ActionKind>, Actions> sent;
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (const Action& action : schedule.actions[stage]) {
      if (!is_send(action.kind)) continue;
      const ActionKind receive = receive_of(action.kind);
      const Seat peer = *peer_of(schedule.layout(), stage, action);
      sent[{stage, peer.stage, receive}].push_back(
          {.kind = receive, .chunk = peer.chunk, .microbatch = action.microbatch});
    }
  std::map<std::tuple<int, int, ActionKind>, size_t> received;
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int i = 0; i < static_cast<int>(schedule.actions[stage].size()); ++i) {
      const Action& action = schedule.actions[stage][i];
      if (!is_message(action.kind) || is_send(action.kind)) continue;
      const int sender = peer_of(schedule.layout(), stage, action)->stage;
      const std::tuple channel = {sender, stage, action.kind};
      const Action& arrives = sent.at(channel).at(received[channel]++);
      if (arrives != action)
        findings.push_back(finding(
            schedule, stage, i,
            fmt::format("stage {} sends {} at its turn; messages are received in the order in "
                        "which they were sent",
                        sender, to_text(arrives, schedule.chunks))));
    }
}

}  // namespace frugal::engine
