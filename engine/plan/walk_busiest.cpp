#include <algorithm>
#include <array>

#include "engine/plan/walk.h"

namespace frugal::engine {
namespace {

/// Messages that come to a part for a pass, and leave it with what that has made.
int messages_of(const Walk& walk, size_t part, ActionKind pass) {
  if (pass == ActionKind::weight_backward) return 0;
  const bool ahead = pass == ActionKind::forward;
  const std::vector<WalkMessage>& sent = ahead ? walk.ahead : walk.back;
  const size_t before = ahead ? part - 1 : part + 1;  // too large where there is none
  const bool comes = before < sent.size() && sent[before].alone > 0;
  return (comes ? 1 : 0) + (sent[part].alone > 0 ? 1 : 0);
}

/// How many passes of each ActionKind a stage makes through a chunk, and how many alone: of
/// microbatches that do not turn (Walk::turns), and of those that do.
struct PassCounts {
  using Count = std::array<int, all_passes.size()>;
  Count all{}, alone{}, turning{};
};

WalkSeconds seconds_of(const Walk& walk, int stage) {
  const auto of_stage = static_cast<size_t>(stage);
  const Actions& actions = walk.actions[of_stage];
  WalkSeconds sum{.device = 0, .host = walk.host_of_step[of_stage]};
  const auto add = [&sum](int times, const PassCost& cost) {
    sum.device += times * cost.seconds;
    sum.host += times * cost.host;
  };
  std::vector<PassCounts> chunks(static_cast<size_t>(walk.layout.chunks));
  bool with_last = false;
  for (size_t i = 0; i < actions.size(); ++i) {
    const auto kind = static_cast<size_t>(actions[i].kind);
    PassCounts& passes = chunks[static_cast<size_t>(actions[i].chunk)];
    const bool with_next = actions[i].beside_next;
    ++passes.all[kind];
    if (with_next)
      add(1, walk.of_pair(of_stage, actions[i]).pass);
    else if (!with_last)
      ++(walk.turning.empty() || !Walk::turns(actions, i) ? passes.alone : passes.turning)[kind];
    with_last = with_next;
  }
  for (int chunk = 0; chunk < walk.layout.chunks; ++chunk) {
    const PassCounts& passes = chunks[static_cast<size_t>(chunk)];
    const auto part = static_cast<size_t>(walk.layout.part_at({stage, chunk}));
    for (size_t i = 0; i < all_passes.size(); ++i) {
      const auto kind = static_cast<ActionKind>(i);
      sum.host += walk.launch * passes.all[i] * messages_of(walk, part, kind);
      add(passes.alone[i], pass_of(walk.parts[part], kind));
      if (!walk.turning.empty()) add(passes.turning[i], pass_of(walk.turning[part], kind));
    }
  }
  return sum;
}

}  // namespace

WalkSeconds busiest(const Walk& walk) {
  WalkSeconds most;
  for (int stage = 0; stage < walk.layout.stages; ++stage) {
    const WalkSeconds all = seconds_of(walk, stage);
    most.device = std::max(most.device, all.device);
    most.host = std::max(most.host, all.host);
  }
  return most;
}

}  // namespace frugal::engine
