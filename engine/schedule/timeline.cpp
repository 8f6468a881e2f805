#include "engine/schedule/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "engine/schedule/clock.h"
#include "engine/schedule/dependencies.h"

namespace frugal::engine {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Times at which each message was on its way, by where and as what it is received.
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

bool is_backward(const Span& span) {
  return span.action.kind == ActionKind::backward || span.action.kind == ActionKind::input_backward;
}

/// The next or the last span that is no message; −1 where there is none.
int next_work(const std::vector<Span>& spans, int i, int by) {
  const int size = static_cast<int>(spans.size());
  for (i += by; i >= 0 && i < size; i += by)
    if (!is_message(spans[i].action.kind)) return i;
  return -1;
}

/// Moves the last forwards before the backwards that their stage waits for.
class LateWarmUp {
 public:
  LateWarmUp(const Dependencies& dependencies, Timeline& timeline)
      : dependencies_(dependencies), timeline_(timeline) {}

  /// Goes from the last stage to the first, since what a stage sends may be late where its receiver
  /// is.
  void run() {
    for (int stage = static_cast<int>(timeline_.stages.size()) - 1; stage >= 0; --stage)
      for (int i = 0; i < static_cast<int>(timeline_.stages[stage].size()); ++i)
        if (ends_warm_up(stage, i)) move(stage, i);
  }

 private:
  bool ends_warm_up(int stage, int i) const {
    const std::vector<Span>& spans = timeline_.stages[stage];
    const int before = next_work(spans, i, -1), after = next_work(spans, i, 1);
    const Action& action = spans[i].action;
    return action.kind == ActionKind::forward && !action.beside_next && after >= 0 &&
           is_backward(spans[after]) && (before < 0 || !is_backward(spans[before]));
  }

  /// The receive of what the pass sends, with the pass that takes it; nothing where it sends
  /// nothing.
  std::optional<std::pair<Span*, Span*>> taker(int stage, int pass) {
    std::vector<Span>& spans = timeline_.stages[stage];
    if (pass + 1 == static_cast<int>(spans.size()) || !is_send(spans[pass + 1].action.kind))
      return std::nullopt;
    const int receive = dependencies_.other_end(dependencies_.node(stage, pass + 1));
    std::vector<Span>& there = timeline_.stages[dependencies_.stage_of(receive)];
    const int at = dependencies_.action_of(receive);
    return std::pair{&there[at], &there[next_work(there, at, 1)]};
  }

  void move(int stage, int pass) {
    std::vector<Span>& spans = timeline_.stages[stage];
    const int after = next_work(spans, pass, 1);
    double latest = spans[after].begin;
    const auto to = taker(stage, pass);
    Span* const send = to ? &spans[pass + 1] : nullptr;
    if (to) latest = std::min(latest, to->second->begin - (send->end - send->begin));
    const double by = latest - spans[pass].end;
    if (by <= 0) return;
    spans[pass].begin += by;
    spans[pass].end += by;
    for (int i = pass + 1; i < after; ++i)
      if (!is_send(spans[i].action.kind)) spans[i].begin = std::max(spans[i].begin, latest);
    if (!to) return;
    send->end = latest + (send->end - send->begin);
    send->begin = latest;
    to->first->end = std::max(to->first->begin, send->end);
  }

  const Dependencies& dependencies_;
  Timeline& timeline_;
};

}  // namespace

ClockCosts Durations::costs(const Schedule& schedule) const {
  const double chunks = schedule.chunks;
  const PassCosts passes = {{{.seconds = forward / chunks},
                             {.seconds = backward / chunks},
                             {.seconds = input_backward / chunks},
                             {.seconds = weight_backward / chunks}}};
  const auto stages = static_cast<size_t>(schedule.stages);
  const auto parts = static_cast<size_t>(schedule.layout().parts());
  ClockCosts costs{.stages = std::vector(stages, ClockCosts::Stage{.step = step}),
                   .parts = std::vector(parts, passes),
                   .ahead = std::vector(parts, LinkCost{.alone = activation}),
                   .back = std::vector(parts, LinkCost{.alone = gradient})};
  if (!together) return costs;
  const PassCost both{.seconds = *together / chunks};
  costs.together.assign(stages, std::vector(static_cast<size_t>(schedule.chunks), both));
  return costs;
}

Timeline simulate(const Schedule& schedule, const Durations& durations, bool late_warm_up) {
  Timeline timeline = {.title = std::string(name_of(schedule.kind)),
                       .unit = "",
                       .chunks = schedule.chunks,
                       .placement = schedule.kind.placement,
                       .microbatches = schedule.microbatches,
                       .stages = {}};
  const ClockCosts costs = durations.costs(schedule);
  (void)PipelineClock(schedule, costs).run(&timeline.stages);
  if (late_warm_up) LateWarmUp(Dependencies(schedule, 1), timeline).run();
  return timeline;
}

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
