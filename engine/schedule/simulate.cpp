#include <algorithm>

#include "engine/schedule/clock.h"
#include "engine/schedule/dependencies.h"

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

}  // namespace frugal::engine
