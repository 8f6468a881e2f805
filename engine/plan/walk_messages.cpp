#include "engine/plan/walk_messages.h"

#include <algorithm>

namespace frugal::engine {

void WalkMessages::take(WalkingStage& s, const WalkInput& input, const WalkWay& bringer) {
  if (walk_.messages == Messages::blocking) {
    (void)s.issue(bringer.stream, walk_.launch);
    s.hold_up(input.since.all);
  }
  if (bringer.message.gather > 0) {
    s.host += walk_.launch;
    s.free.all = std::max(s.free.all, s.host) + bringer.message.gather;
  }
}

bool WalkMessages::exchanged(WalkingStage& s, WalkInput* input, const WalkWay* bringer) {
  const bool receives = bringer != nullptr && !input->received;
  const bool together = receives && s.sent && s.sent->way->to_stage == bringer->from_stage;
  if (receives && !s.receiving)
    s.receiving = std::max(s.issue(bringer->stream, walk_.launch), s.free.all);
  if (s.sent && !together) {
    if (!s.sent->input->awaited) return false;
    const double over = end_sending(s, s.sent->crossing().end());
    if (receives) s.receiving = std::max(*s.receiving, over);
  }
  return !receives || received(s, *input, *bringer);
}

bool WalkMessages::received(WalkingStage& s, WalkInput& input, const WalkWay& bringer) {
  if (!input.awaited) {
    input.awaited = true;
    input.since.all = std::max(input.since.all, *s.receiving);
    moved_ = true;
  }
  if (!input.here || (s.sent && !s.sent->input->awaited)) return false;
  const Crossing coming = input.crossing(bringer.message);
  double end = coming.end();
  if (s.sent) {
    const auto [of_sent, of_received] = ends_of_both(s.sent->crossing(), coming);
    (void)end_sending(s, of_sent);
    end = of_received;
  }
  s.hold_up(end);
  s.receiving.reset();
  input.received = true;
  return true;
}

double WalkMessages::end_sending(WalkingStage& s, double end) {
  const WalkWay& way = *s.sent->way;
  const double over = std::max(s.sent->crossing().begin, end - way.message.buffered);
  s.streams[way.stream] = end;
  s.hold_up(over);
  s.sent.reset();
  moved_ = true;
  return over;
}

void WalkMessages::send_held_up(WalkingStage& s, const WalkWay& way, WalkInput& input,
                                double ready) {
  double& stream = s.streams[way.stream];
  stream = std::max(stream, s.free.all);
  const double begin = s.issue(way.stream, walk_.launch);
  if (walk_.messages == Messages::exchanged) {
    input.since.all = std::max(begin, ready);
    s.sent = {&way, &input};
    return;
  }
  input.since.all = stream = begin + way.message.alone;
  s.hold_up(stream);
}

}  // namespace frugal::engine
