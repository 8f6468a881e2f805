#include "engine/schedule/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "engine/schedule/dependencies.h"

namespace frugal::engine {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// When each message was on its way, by where and as what it is received.
using Arrivals = std::map<std::tuple<int, ActionKind, int, int>, Span>;

Arrivals arrivals(const Timeline& timeline) {
  const PartLayout layout = timeline.layout();
  Arrivals found;
  for (int stage = 0; stage < layout.stages; ++stage)
    for (const Span& span : timeline.stages[stage]) {
      if (!is_send(span.action.kind)) continue;
      const ActionKind receive = receive_of(span.action.kind);
      if (const auto peer = peer_of(layout, stage, span.action))
        found[{peer->stage, receive, peer->chunk, span.action.microbatch}] = span;
    }
  return found;
}

Bubble bubble_of(const std::vector<Span>& spans, const std::vector<Span>& transits, double begin,
                 double end) {
  Bubble bubble;
  bool started = false;
  double idle_since = begin;
  auto transit = transits.begin();
  bool counted = false;  // with the pass before it
  for (const Span& span : spans) {
    if (is_message(span.action.kind) || std::exchange(counted, span.action.beside_next)) continue;
    double communication = 0;
    for (double covered = idle_since; transit != transits.end() && transit->begin < span.begin;
         ++transit) {
      const double until = std::min(transit->end, span.begin);
      communication += std::max(until - std::max(transit->begin, covered), 0.0);
      covered = std::max(covered, until);
    }
    if (!started) communication = 0;  // nothing was to be done yet
    (started ? bubble.stalls : bubble.start_up) += span.begin - idle_since - communication;
    bubble.communication += communication;
    bubble.busy += span.end - span.begin;
    idle_since = span.end;
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

std::vector<std::vector<Span>> transits(const Timeline& timeline) {
  const Arrivals found = arrivals(timeline);
  std::vector<std::vector<Span>> out(timeline.stages.size());
  for (int stage = 0; stage < static_cast<int>(out.size()); ++stage)
    for (const Span& span : timeline.stages[stage]) {
      const Action& action = span.action;
      const auto send = found.find({stage, action.kind, action.chunk, action.microbatch});
      if (send == found.end()) continue;
      const double begin = std::max(span.begin, send->second.begin);
      const double end = std::min(span.end, send->second.end);
      if (end > begin) out[stage].push_back({action, begin, end});
    }
  return out;
}

std::vector<Bubble> bubbles(const Timeline& timeline) {
  const auto under_way = transits(timeline);
  const double begin = timeline.begin(), end = timeline.end();
  std::vector<Bubble> out;
  for (size_t stage = 0; stage < timeline.stages.size(); ++stage)
    out.push_back(bubble_of(timeline.stages[stage], under_way[stage], begin, end));
  return out;
}

double idle_over_busy(const Timeline& timeline) {
  double idle = 0, busy = 0;
  for (const Bubble& bubble : bubbles(timeline)) {
    idle += bubble.idle();
    busy += bubble.busy;
  }
  return idle / busy;
}

}  // namespace frugal::engine
