#include <algorithm>

#include "engine/schedule/dependencies.h"
#include "engine/schedule/timeline.h"

namespace frugal::engine {
namespace {

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

/// The pass before this one, where the two are made together.
Span* made_with(const Dependencies& dependencies, Timeline& timeline, int node) {
  const int action = dependencies.action_of(node);
  if (action == 0) return nullptr;
  Span& before = timeline.stages[dependencies.stage_of(node)][action - 1];
  return before.action.beside_next ? &before : nullptr;
}

/// Moves the last forwards before the backwards that their stage waits for.
class LateWarmUp {
 public:
  LateWarmUp(const Dependencies& dependencies, Timeline& timeline)
      : dependencies_(dependencies), timeline_(timeline) {}

  /// From the last stage to the first, since what a stage sends may be late where its receiver is.
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

double Durations::of(const Action& action, int chunks) const {
  switch (action.kind) {
    case ActionKind::forward:
      return forward / chunks;
    case ActionKind::backward:
      return backward / chunks;
    case ActionKind::input_backward:
      return input_backward / chunks;
    case ActionKind::weight_backward:
      return weight_backward / chunks;
    case ActionKind::send_activation:
      return activation;
    case ActionKind::send_gradient:
      return gradient;
    case ActionKind::step:
      return step;
    default:
      return 0;  // a receive takes no time by itself; it waits
  }
}

double Durations::of(const Action& first, const Action& beside, int chunks) const {
  if (together && beside.kind == ActionKind::backward) return *together / chunks;
  return of(first, chunks) + of(beside, chunks);
}

Timeline simulate(const Schedule& schedule, const Durations& durations, bool late_warm_up) {
  Timeline timeline = {.title = std::string(name_of(schedule.kind)),
                       .unit = "",
                       .chunks = schedule.chunks,
                       .placement = schedule.kind.placement,
                       .microbatches = schedule.microbatches,
                       .stages = {}};
  for (const Actions& actions : schedule.actions) {
    timeline.stages.emplace_back();
    for (const Action& action : actions) timeline.stages.back().push_back({.action = action});
  }
  const Dependencies dependencies(schedule, std::nullopt);
  const auto span = [&](int node) -> Span& {
    return timeline.stages[dependencies.stage_of(node)][dependencies.action_of(node)];
  };
  for (const int node : dependencies.order()) {
    Span& here = span(node);
    const bool receive = is_message(here.action.kind) && !is_send(here.action.kind);
    for (const int earlier : dependencies.before(node)) {
      here.end = std::max(here.end, span(earlier).end);
      // A stage waits for a message from its last action on, not from when it is sent.
      if (!receive || earlier != dependencies.other_end(node))
        here.begin = std::max(here.begin, span(earlier).end);
    }
    here.end = std::max(here.end, here.begin) + durations.of(here.action, schedule.chunks);
    if (Span* const first = made_with(dependencies, timeline, node)) {
      here.begin = first->begin;
      here.end = first->begin + durations.of(first->action, here.action, schedule.chunks);
      first->end = here.end;
    }
  }
  if (late_warm_up) LateWarmUp(dependencies, timeline).run();
  return timeline;
}

}  // namespace frugal::engine
