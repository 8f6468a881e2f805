#include "engine/schedule/dependencies.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

namespace frugal::engine {
namespace {

/// Cargo of a message, and whether it goes the same way as the first chunk's: of a stage's
/// channels each, to one stage.
constexpr int sides = 4;
int side_of(const PartLayout& layout, const Action& message) {
  const bool activation =
      message.kind == ActionKind::send_activation || message.kind == ActionKind::receive_activation;
  return (activation ? 2 : 0) + (layout.goes_back(message.chunk) ? 1 : 0);
}

}  // namespace

ActionKind receive_of(ActionKind send) {
  return send == ActionKind::send_activation ? ActionKind::receive_activation
                                             : ActionKind::receive_gradient;
}

Dependencies::Dependencies(const Schedule& schedule, int capacity) {
  int size = 0;
  for (const Actions& actions : schedule.actions) {
    offsets_.push_back(size);
    size += static_cast<int>(actions.size());
  }
  before_.resize(size);
  other_end_.resize(size, -1);
  for (int stage = 0; stage < schedule.stages; ++stage) order_stage(schedule, stage);
  meet_in_steps(schedule);
  match_messages(schedule, capacity);
}

void Dependencies::order_stage(const Schedule& schedule, int stage) {
  // Rings let a receive past the sends before it.
  const bool apart = schedule.chunks > 1;
  int held_up_by = -1;  // the last action that is no send
  using OfSides = std::array<int, sides>;
  constexpr OfSides none = {-1, -1, -1, -1};
  OfSides on_stream = none;  // the last message of each side
  OfSides sent = none;       // the last send of each
  OfSides awaited = none;    // the one before it, until an action that is no send has waited
  const Actions& actions = schedule.actions[stage];
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const int here = node(stage, i);
    const bool send = is_send(actions[i].kind);
    if (held_up_by >= 0) before_[here].push_back(held_up_by);
    for (const int earlier : awaited)
      if (earlier >= 0) before_[here].push_back(earlier);
    if (is_message(actions[i].kind)) {
      const auto side = static_cast<size_t>(side_of(schedule.layout(), actions[i]));
      const bool waits = !apart || send;
      int& last = on_stream[side];
      if (waits && last >= 0) before_[here].push_back(last);
      if (waits) last = here;
      if (send) awaited[side] = std::exchange(sent[side], here);
    }
    if (send) continue;
    held_up_by = here;
    awaited = none;
  }
}

/// Stage 0's step waits for what stands before everyone's, and everyone's for stage 0's.
void Dependencies::meet_in_steps(const Schedule& schedule) {
  std::vector<int> first;  // stage 0's steps
  for (int stage = 0; stage < schedule.stages; ++stage) {
    size_t number = 0;
    for (int i = 0; i < static_cast<int>(schedule.actions[stage].size()); ++i) {
      if (schedule.actions[stage][i].kind != ActionKind::step) continue;
      const int here = node(stage, i);
      if (stage == 0) {
        first.push_back(here);
        continue;
      }
      const int meeting = first.at(number++);
      before_[meeting].insert(before_[meeting].end(), before_[here].begin(), before_[here].end());
      before_[here].push_back(meeting);
    }
  }
}

void Dependencies::match_messages(const Schedule& schedule, int capacity) {
  std::vector<std::vector<int>> sent(size_t{sides} * schedule.stages), received(sent.size());
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int i = 0; i < static_cast<int>(schedule.actions[stage].size()); ++i) {
      const Action& action = schedule.actions[stage][i];
      if (!is_message(action.kind)) continue;
      const bool send = is_send(action.kind);
      const int sender = send ? stage : peer_of(schedule.layout(), stage, action)->stage;
      const int channel = sides * sender + side_of(schedule.layout(), action);
      (send ? sent : received)[channel].push_back(node(stage, i));
    }
  for (size_t channel = 0; channel < sent.size(); ++channel)
    for (size_t n = 0; n < sent[channel].size(); ++n) {
      const int send = sent[channel][n], receive = received[channel].at(n);
      other_end_[send] = receive;
      other_end_[receive] = send;
      if (capacity == 0)  // what the receive waits for, the send does too
        before_[send].insert(before_[send].end(), before_[receive].begin(), before_[receive].end());
      else if (n >= static_cast<size_t>(capacity))
        before_[send].push_back(received[channel].at(n - capacity));
      before_[receive].push_back(send);
    }
}

int Dependencies::stage_of(int node) const {
  const auto next = std::upper_bound(offsets_.begin(), offsets_.end(), node);
  return static_cast<int>(next - offsets_.begin()) - 1;
}

std::vector<int> Dependencies::order() const {
  std::vector<int> waits_for(before_.size());
  std::vector<std::vector<int>> after(before_.size());
  std::vector<int> order;
  for (int here = 0; here < size(); ++here) {
    for (const int earlier : before_[here]) after[earlier].push_back(here);
    waits_for[here] = static_cast<int>(before_[here].size());
    if (waits_for[here] == 0) order.push_back(here);
  }
  for (size_t done = 0; done < order.size(); ++done)
    for (const int later : after[order[done]])
      if (--waits_for[later] == 0) order.push_back(later);
  return order;
}

std::vector<int> Dependencies::cycle() const {
  std::vector<bool> stuck(before_.size(), true);
  for (const int free : order()) stuck[free] = false;
  const auto first = std::find(stuck.begin(), stuck.end(), true);
  if (first == stuck.end()) return {};
  const auto stuck_before = [&](int here) {
    return *std::find_if(before_[here].begin(), before_[here].end(),
                         [&](int earlier) { return stuck[earlier]; });
  };
  // What is stuck waits for something stuck; so this walk ends up in a circle.
  int inside = static_cast<int>(first - stuck.begin());
  for (int i = 0; i < size(); ++i) inside = stuck_before(inside);
  // The shortest way from there back to it.
  std::vector<int> reached_from(before_.size(), -1);
  std::deque<int> front = {inside};
  while (reached_from[inside] < 0) {
    const int here = front.front();
    front.pop_front();
    for (const int earlier : before_[here])
      if (stuck[earlier] && reached_from[earlier] < 0) {
        reached_from[earlier] = here;
        front.push_back(earlier);
      }
  }
  std::vector<int> circle = {inside};
  for (int here = reached_from[inside]; here != inside; here = reached_from[here])
    circle.push_back(here);
  std::reverse(circle.begin(), circle.end());
  return circle;
}

}  // namespace frugal::engine
