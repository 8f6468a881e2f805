#include "engine/schedule/schedule.h"

#include <algorithm>

#include "engine/schedule/kind.h"

namespace frugal::engine {

namespace {

template <class Is>
bool any_action(const Schedule& schedule, Is is) {
  return std::ranges::any_of(
      schedule.actions, [&](const Actions& actions) { return std::ranges::any_of(actions, is); });
}

}  // namespace

const std::vector<ScheduleKind>& ScheduleKind::all() {
  static const std::vector<ScheduleKind> all = {FRUGAL_SCHEDULES};
  return all;
}

std::optional<ScheduleKind> schedule_kind(std::string_view name) {
  const auto& all = ScheduleKind::all();
  const auto found = std::ranges::find(all, name, &ScheduleKind::name);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

bool splits_backward(const Schedule& schedule) {
  return any_action(schedule,
                    [](const Action& action) { return action.kind == ActionKind::input_backward; });
}

bool makes_together(const Schedule& schedule) {
  return any_action(schedule, [](const Action& action) { return action.beside_next; });
}

bool is_pass(ActionKind kind) { return kind <= ActionKind::weight_backward; }

bool completes_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::weight_backward;
}

bool is_message(ActionKind kind) { return !is_pass(kind) && kind != ActionKind::step; }

bool is_send(ActionKind kind) {
  return kind == ActionKind::send_activation || kind == ActionKind::send_gradient;
}

std::optional<Seat> peer_of(const PartLayout& layout, int stage, const Action& message) {
  const bool ahead =
      message.kind == ActionKind::send_activation || message.kind == ActionKind::receive_gradient;
  return layout.neighbour({stage, message.chunk}, ahead);
}

std::optional<Seat> elsewhere(const PartLayout& layout, const Seat& seat, bool ahead) {
  const std::optional<Seat> peer = layout.neighbour(seat, ahead);
  return peer && peer->stage != seat.stage ? peer : std::nullopt;
}

}  // namespace frugal::engine
