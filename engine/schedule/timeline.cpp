#include "engine/schedule/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace frugal {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

bool computes(const Span& span) { return !is_message(span.action.kind); }

/// When each message was on its way, by where and as what it is received.
using Arrivals = std::map<std::tuple<int, ActionKind, int, int>, Span>;

Arrivals arrivals(const Timeline& timeline) {
  Schedule layout;
  layout.stages = static_cast<int>(timeline.stages.size());
  layout.chunks = timeline.chunks;
  Arrivals found;
  for (int stage = 0; stage < layout.stages; ++stage)
    for (const Span& span : timeline.stages[stage]) {
      if (!is_send(span.action.kind)) continue;
      const ActionKind receive = span.action.kind == ActionKind::send_activation
                                     ? ActionKind::receive_activation
                                     : ActionKind::receive_gradient;
      if (const auto peer = peer_of(layout, stage, span.action))
        found[{peer->stage, receive, peer->chunk, span.action.microbatch}] = span;
    }
  return found;
}

/// How much of [begin, end] a stage waited for messages that were on their way; `waits` are its
/// receives in it.
double on_the_way(const std::vector<std::pair<Span, Span>>& waits, double begin, double end) {
  double sum = 0, covered = begin;
  for (const auto& [receive, send] : waits) {
    const double from = std::max({receive.begin, send.begin, covered});
    const double to = std::min({receive.end, send.end, end});
    sum += std::max(to - from, 0.0);
    covered = std::max(covered, to);
  }
  return sum;
}

Bubble bubble_of(const Timeline& timeline, int stage, const Arrivals& arrivals) {
  Bubble bubble;
  const double begin = timeline.begin(), end = timeline.end();
  bool started = false;
  double idle_since = begin;
  std::vector<std::pair<Span, Span>> waits;  // since then: receives, with their sends
  for (const Span& span : timeline.stages[stage]) {
    const Action& action = span.action;
    if (!computes(span)) {
      const auto send = arrivals.find({stage, action.kind, action.chunk, action.microbatch});
      if (send != arrivals.end()) waits.emplace_back(span, send->second);
      continue;
    }
    const double gap = span.begin - idle_since;
    const double communication = started ? on_the_way(waits, idle_since, span.begin) : 0;
    (started ? bubble.stalls : bubble.start_up) += gap - communication;
    bubble.communication += communication;
    bubble.busy += span.end - span.begin;
    idle_since = span.end;
    waits.clear();
    started = true;
  }
  bubble.drain = end - idle_since;
  return bubble;
}

}  // namespace

double Timeline::begin() const {
  double first = never;
  for (const auto& spans : stages)
    for (const Span& span : spans) first = std::min(first, span.begin);
  return first == never ? 0 : first;
}

double Timeline::end() const {
  double last = begin();
  for (const auto& spans : stages)
    for (const Span& span : spans) last = std::max(last, span.end);
  return last;
}

std::vector<Bubble> bubbles(const Timeline& timeline) {
  const Arrivals found = arrivals(timeline);
  std::vector<Bubble> out;
  for (int stage = 0; stage < static_cast<int>(timeline.stages.size()); ++stage)
    out.push_back(bubble_of(timeline, stage, found));
  return out;
}

}  // namespace frugal
