#include "engine/schedule/schedule.h"

#include <algorithm>

namespace frugal::engine {

bool splits_backward(const Schedule& schedule) {
  return std::ranges::any_of(schedule.actions, [](const Actions& actions) {
    return std::ranges::any_of(
        actions, [](const Action& action) { return action.kind == ActionKind::input_backward; });
  });
}

bool is_pass(ActionKind kind) { return kind <= ActionKind::weight_backward; }

bool completes_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::weight_backward;
}

bool is_message(ActionKind kind) { return !is_pass(kind) && kind != ActionKind::step; }

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}

std::optional<Peer> neighbour(const Schedule& schedule, int stage, int chunk, bool ahead) {
  const int part = chunk * schedule.stages + stage + (ahead ? 1 : -1);
  if (part < 0 || part >= schedule.parts()) return std::nullopt;
  return Peer{part % schedule.stages, part / schedule.stages};
}

std::optional<Peer> peer_of(const Schedule& schedule, int stage, const Action& message) {
  const bool ahead =
      message.kind == ActionKind::send_activation || message.kind == ActionKind::receive_gradient;
  return neighbour(schedule, stage, message.chunk, ahead);
}

}  // namespace frugal::engine
