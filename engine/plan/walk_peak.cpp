#include <algorithm>
#include <set>
#include <utility>

#include "engine/plan/walk.h"

namespace frugal::engine {
namespace {

/// What a stage holds while it makes its passes.
class Holding {
 public:
  Holding(const Walk& walk, int stage) : walk_(walk), stage_(stage) {
    std::set<std::pair<bool, int>> sides;
    for (int chunk = 0; chunk < walk.layout.chunks; ++chunk) {
      const auto part = static_cast<size_t>(walk.layout.part_at({stage, chunk}));
      chunks_.push_back({part, handed(chunk, true), handed(chunk, false)});
      for (const bool ahead : {true, false})
        if (const auto peer = elsewhere(walk.layout, {stage, chunk}, ahead))
          sides.emplace(ahead, peer->stage);
    }
    // One that was sent stays until the next one to the same side, or is waited for.
    if (walk.messages != Messages::exchanged)
      sent_ = static_cast<int64_t>(sides.size()) * walk.message_bytes;
  }

  int64_t peak() {
    int64_t highest = 0;
    const Actions& passes = walk_.actions[static_cast<size_t>(stage_)];
    for (size_t i = 0; i < passes.size(); ++i) {
      if (!passes[i].beside_next) {
        highest = std::max(highest, peak_of_pass(i));
        continue;
      }
      // What came from a chunk of this stage is in the pair's peak.
      const int64_t came = chunk_of(passes[i]).before + chunk_of(passes[i + 1]).behind;
      const int64_t above = walk_.of_pair(static_cast<size_t>(stage_), passes[i]).peak;
      highest = std::max(highest, held_ - came + above);
      (void)peak_of_pass(i);
      (void)peak_of_pass(++i);
    }
    return highest + sent_;
  }

 private:
  /// With what is held before it; holds what it leaves.
  int64_t peak_of_pass(size_t index) {
    const auto stage = static_cast<size_t>(stage_);
    const Action& pass = walk_.actions[stage][index];
    const Chunk& chunk = chunk_of(pass);
    const auto [takes, above, leaves] = of(walk_.of_pass(chunk.part, stage, index), pass.kind);
    // What goes to a chunk of this stage waits here; what a pass makes is in its own peak.
    const bool hands = pass.kind != ActionKind::weight_backward;
    const bool forward = pass.kind == ActionKind::forward;
    held_ -= takes + (hands ? (forward ? chunk.before : chunk.behind) : 0);
    const int64_t peak = held_ + above;
    held_ += leaves + (hands ? (forward ? chunk.behind : chunk.before) : 0);
    return peak;
  }
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
  /// Bytes of what goes from this chunk to the part behind it, or before it, on the same stage.
  int64_t handed(int chunk, bool ahead) const {
    const auto next = walk_.layout.neighbour({stage_, chunk}, ahead);
    return next && next->stage == stage_ ? walk_.message_bytes : 0;
  }
  struct Chunk {
    size_t part;
    int64_t behind, before;  // handed
  };

  const Chunk& chunk_of(const Action& pass) const {
    return chunks_[static_cast<size_t>(pass.chunk)];
  }

  const Walk& walk_;
  const int stage_;
  std::vector<Chunk> chunks_;
  int64_t held_ = 0, sent_ = 0;
};

}  // namespace

int64_t peak_of(const Walk& walk, int stage) { return Holding(walk, stage).peak(); }

int64_t most_offloaded(const Walk& walk, int stage) {
  int64_t now = 0, most = 0;
  const Actions& passes = walk.actions[static_cast<size_t>(stage)];
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].kind == ActionKind::weight_backward) continue;
    if (passes[i].beside_next)
      most = std::max(most, now + walk.of_pair(static_cast<size_t>(stage), passes[i]).on_host);
    const auto part = static_cast<size_t>(walk.layout.part_at({stage, passes[i].chunk}));
    const int64_t kept = walk.of_pass(part, static_cast<size_t>(stage), i).kept_on_host;
    now += passes[i].kind == ActionKind::forward ? kept : -kept;
    if (!passes[i].beside_next) most = std::max(most, now);
  }
  return most;
}

}  // namespace frugal::engine
