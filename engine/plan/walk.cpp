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
        forward_(ways(true)),
        backward_(ways(false)),
        free_(stages_.size() * 4) {
    for (size_t i = 0; i < stages_.size(); ++i) {
      stages_[i].free = {walk.step[i], walk.step[i], 0};
      for (int chunk = 0; chunk < walk.layout.chunks; ++chunk)
        stages_[i].parts.push_back(walk.layout.part_at({static_cast<int>(i), chunk}));
    }
  }

  /// When each stage has made its passes, from the meeting before.
  std::vector<Moments> run() {
    // Around and around: each goes as far as it comes.
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t i = 0; i < stages_.size(); ++i) moved |= advance(i);
      for (size_t i = stages_.size(); i-- > 0;) moved |= advance(i);
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
    std::vector<int> parts;  // of its chunks
  };
  struct Input {
    bool here = false;
    Moments since;
  };
  /// What a part makes in one direction: who gets it, by which channel, and when what it needs
  /// itself came.
  struct Way {
    bool begins = false;   // with nothing that it would wait for
    int to = -1;           // the part, or none
    bool travels = false;  // to another stage
    size_t channel = 0;
    double seconds = 0;
    std::vector<Input> inputs;  // of each microbatch
  };

  std::vector<Way> ways(bool forward) const {
    const int parts = walk_.layout.parts();
    std::vector<Way> found(static_cast<size_t>(parts));
    for (int part = 0; part < parts; ++part) {
      Way& way = found[static_cast<size_t>(part)];
      const Seat seat = walk_.layout.seat_of(part);
      way.inputs.resize(static_cast<size_t>(walk_.microbatches));
      way.begins = part == (forward ? 0 : parts - 1);
      if (part == (forward ? parts - 1 : 0)) continue;
      way.to = part + (forward ? 1 : -1);
      if (walk_.layout.seat_of(way.to).stage == seat.stage) continue;
      way.travels = true;
      way.seconds = (forward ? walk_.ahead : walk_.back)[static_cast<size_t>(part)];
      // What goes the same way from a stage travels one after the other, whatever chunk made it.
      way.channel = static_cast<size_t>(seat.stage) * 4 + (forward ? 2 : 0) +
                    (walk_.layout.goes_back(seat.chunk) ? 1 : 0);
    }
    return found;
  }

  /// As far as it comes; whether that is any further.
  bool advance(size_t stage) {
    const Actions& actions = walk_.actions[stage];
    Stage& s = stages_[stage];
    const size_t before = s.done;
    for (; s.done < actions.size(); ++s.done) {
      const Action& pass = actions[s.done];
      const auto part = static_cast<size_t>(s.parts[static_cast<size_t>(pass.chunk)]);
      const bool is_forward = pass.kind == ActionKind::forward;
      std::vector<Way>& ways = is_forward ? forward_ : backward_;
      const bool waits = pass.kind != ActionKind::weight_backward;
      if (waits && !ways[part].begins) {
        const Input& input = ways[part].inputs[static_cast<size_t>(pass.microbatch)];
        if (!input.here) break;
        s.free = later(s.free, input.since);
      }
      s.free = s.free.after(seconds_of(walk_.parts[part], pass.kind));
      if (waits) hand_on(ways, ways[part], pass.microbatch, s.free);
    }
    return s.done > before;
  }

  /// Gives what a pass has made to the part that needs it.
  void hand_on(std::vector<Way>& ways, const Way& way, int microbatch, const Moments& made) {
    if (way.to < 0) return;
    Moments arrived = made;
    if (way.travels) {
      double& channel = free_[way.channel];
      arrived.with = channel = std::max(made.with, channel) + way.seconds;
    }
    ways[static_cast<size_t>(way.to)].inputs[static_cast<size_t>(microbatch)] = {true, arrived};
  }

  const Walk& walk_;
  std::vector<Stage> stages_;
  std::vector<Way> forward_, backward_;  // of each part
  std::vector<double> free_;             // each channel, from then on
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
