#include <algorithm>
#include <utility>

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

WalkSeconds seconds_of(const Walk& walk, int stage) {
  const auto of_stage = static_cast<size_t>(stage);
  WalkSeconds all{.device = 0, .host = walk.host_of_step[of_stage]};
  bool with_next = false;
  for (size_t i = 0; i < walk.actions[of_stage].size(); ++i) {
    const Action& pass = walk.actions[of_stage][i];
    const auto part = static_cast<size_t>(walk.layout.part_at({stage, pass.chunk}));
    all.host += walk.launch * messages_of(walk, part, pass.kind);
    const bool with_last = std::exchange(with_next, pass.beside_next);
    if (with_last) continue;
    const PassCost& cost = with_next ? walk.of_pair(of_stage, pass).pass
                                     : pass_of(walk.of_pass(part, of_stage, i), pass.kind);
    all.device += cost.seconds;
    all.host += cost.host;
  }
  return all;
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
