#include "engine/plan/walk.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace frugal::engine {
namespace {

/// A moment, and when it would be if messages took no time, and if steps took none either.
struct Moments {
  double with = 0, without_messages = 0, of_passes = 0;

  Moments after(double seconds) const {
    return {with + seconds, without_messages + seconds, of_passes + seconds};
  }
};
Moments later(const Moments& a, const Moments& b) {
  return {std::max(a.with, b.with), std::max(a.without_messages, b.without_messages),
          std::max(a.of_passes, b.of_passes)};
}

double seconds_of(const PartCost& part, ActionKind pass) {
  switch (pass) {
    case ActionKind::forward:
      return part.forward;
    case ActionKind::input_backward:
      return part.input_backward;
    case ActionKind::weight_backward:
      return part.weight_backward;
    default:
      return part.backward;
  }
}

/// Makes every stage's passes, each stage's in its order.
class Clock {
 public:
  explicit Clock(const Walk& walk)
      : walk_(walk),
        stages_(walk.actions.size()),
        there_{Inputs(entries()), Inputs(entries())},
        free_(stages_.size() * 4) {
    for (size_t i = 0; i < stages_.size(); ++i) stages_[i].free = {walk.step[i], walk.step[i], 0};
  }

  /// When each stage has made its passes, from the meeting before.
  std::vector<Moments> run() {
    std::vector<int> to_go(stages_.size());
    for (size_t i = 0; i < to_go.size(); ++i) to_go[i] = static_cast<int>(to_go.size() - 1 - i);
    while (!to_go.empty()) {
      const int stage = to_go.back();
      to_go.pop_back();
      advance(stage, to_go);
    }
    std::vector<Moments> ends;
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i].done != walk_.actions[i].size())
        throw std::logic_error("a schedule whose stages wait for each other");
      ends.push_back(stages_[i].free);
    }
    return ends;
  }

 private:
  struct Stage {
    size_t done = 0;
    Moments free;
  };
  struct Input {
    bool here = false;
    Moments since;
  };
  using Inputs = std::vector<Input>;

  size_t entries() const { return walk_.parts.size() * static_cast<size_t>(walk_.microbatches); }
  size_t entry(int part, int microbatch) const {
    return static_cast<size_t>(part) * static_cast<size_t>(walk_.microbatches) +
           static_cast<size_t>(microbatch);
  }

  /// As far as it comes; stages that can go on then are added to those to go.
  void advance(int stage, std::vector<int>& to_go) {
    const Actions& actions = walk_.actions[static_cast<size_t>(stage)];
    Stage& s = stages_[static_cast<size_t>(stage)];
    for (; s.done < actions.size(); ++s.done) {
      const Action& pass = actions[s.done];
      const int part = walk_.layout.part_at({stage, pass.chunk});
      if (!begin(pass, part, s.free)) return;
      const double seconds = seconds_of(walk_.parts[static_cast<size_t>(part)], pass.kind);
      s.free = s.free.after(seconds);
      if (pass.kind != ActionKind::weight_backward) hand_on(pass, part, s.free, to_go);
    }
  }

  /// When a pass's input is there; false where that is not known yet.
  bool begin(const Action& pass, int part, Moments& free) const {
    const bool forward = pass.kind == ActionKind::forward;
    const int end = forward ? 0 : static_cast<int>(walk_.parts.size()) - 1;
    if (part == end || pass.kind == ActionKind::weight_backward) return true;
    const Input& input = there_[forward ? 0 : 1][entry(part, pass.microbatch)];
    if (input.here) free = later(free, input.since);
    return input.here;
  }

  /// Gives what a pass has made to the part that needs it.
  void hand_on(const Action& pass, int part, const Moments& made, std::vector<int>& to_go) {
    const bool forward = pass.kind == ActionKind::forward;
    const int to = part + (forward ? 1 : -1);
    if (to < 0 || to >= static_cast<int>(walk_.parts.size())) return;
    const Seat from = walk_.layout.seat_of(part), there = walk_.layout.seat_of(to);
    Moments arrived = made;
    if (there.stage != from.stage) {
      // What goes the same way from a stage travels one after the other, whatever chunk made it.
      double& channel = free_[channel_of(from, forward)];
      const auto& seconds = forward ? walk_.ahead : walk_.back;
      arrived.with = std::max(made.with, channel) + seconds[static_cast<size_t>(part)];
      channel = arrived.with;
    }
    there_[forward ? 0 : 1][entry(to, pass.microbatch)] = {true, arrived};
    if (there.stage != from.stage) to_go.push_back(there.stage);
  }
  size_t channel_of(const Seat& from, bool forward) const {
    const bool returns = walk_.layout.goes_back(from.chunk);
    return static_cast<size_t>(from.stage) * 4 + (forward ? 2 : 0) + (returns ? 1 : 0);
  }

  const Walk& walk_;
  std::vector<Stage> stages_;
  Inputs there_[2];           // of forward passes, and of backward ones
  std::vector<double> free_;  // each channel, from then on
};

/// What a stage holds while it makes its passes.
class Holding {
 public:
  Holding(const Walk& walk, int stage) : walk_(walk), stage_(stage) {
    std::set<std::pair<bool, int>> sides;
    for (int chunk = 0; chunk < walk.layout.chunks; ++chunk)
      for (const bool ahead : {true, false})
        if (const auto peer = elsewhere(walk.layout, {stage, chunk}, ahead))
          sides.emplace(ahead, peer->stage);
    if (walk.keeps_messages) sent_ = static_cast<int64_t>(sides.size()) * walk.message_bytes;
  }

  int64_t peak() {
    int64_t highest = 0;
    for (const Action& pass : walk_.actions[static_cast<size_t>(stage_)]) {
      const PartCost& part =
          walk_.parts[static_cast<size_t>(walk_.layout.part_at({stage_, pass.chunk}))];
      const auto [takes, above, leaves] = of(part, pass.kind);
      // What goes to a chunk of this stage waits here; what a pass makes is in its own peak.
      const bool hands = pass.kind != ActionKind::weight_backward;
      const bool forward = pass.kind == ActionKind::forward;
      held_ -= takes + (hands && is_here(pass.chunk, !forward) ? walk_.message_bytes : 0);
      highest = std::max(highest, held_ + above);
      held_ += leaves + (hands && is_here(pass.chunk, forward) ? walk_.message_bytes : 0);
    }
    return highest + sent_;
  }

 private:
  struct Change {
    int64_t takes, above, leaves;
  };
  static Change of(const PartCost& part, ActionKind pass) {
    switch (pass) {
      case ActionKind::forward:
        return {0, part.forward_peak, part.kept};
      case ActionKind::weight_backward:
        return {part.owed, part.weight_backward_peak, 0};
      case ActionKind::input_backward:
        return {part.kept, part.input_backward_peak, part.owed};
      default:
        return {part.kept, part.backward_peak, 0};
    }
  }
  /// Whether the part behind this chunk's, or before it, is on this stage, too.
  bool is_here(int chunk, bool ahead) const {
    const auto next = walk_.layout.neighbour({stage_, chunk}, ahead);
    return next && next->stage == stage_;
  }

  const Walk& walk_;
  const int stage_;
  int64_t held_ = 0, sent_ = 0;
};

}  // namespace

WalkTime time_of(const Walk& walk) {
  const std::vector<Moments> ends = Clock(walk).run();
  Moments last, met;
  for (size_t i = 0; i < ends.size(); ++i) {
    last = later(last, ends[i]);
    met = later(met, ends[i].after(walk.sums[i]));
  }
  return {.passes = last.of_passes,
          .step = last.without_messages - last.of_passes,
          .sums = met.without_messages - last.without_messages,
          .messages = met.with - met.without_messages};
}

int64_t peak_of(const Walk& walk, int stage) { return Holding(walk, stage).peak(); }

double busiest(const Walk& walk) {
  double most = 0;
  for (int stage = 0; stage < walk.layout.stages; ++stage) {
    double seconds = 0;
    for (const Action& pass : walk.actions[static_cast<size_t>(stage)])
      seconds += seconds_of(
          walk.parts[static_cast<size_t>(walk.layout.part_at({stage, pass.chunk}))], pass.kind);
    most = std::max(most, seconds);
  }
  return most;
}

}  // namespace frugal::engine
