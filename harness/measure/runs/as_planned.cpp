#include "harness/measure/runs/as_planned.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/schedule/schedules.h"
#include "harness/measure/statistics.h"

namespace frugal::harness {

Timeline with_steps_begun_together(Timeline timeline) {
  std::map<int, double> last;  // when the last stage came to the step that makes a version
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans) {
      if (span.action.kind != ActionKind::step) continue;
      const auto found = last.try_emplace(span.action.version, span.begin).first;
      found->second = std::max(found->second, span.begin);
    }
  for (auto& spans : timeline.stages)
    for (Span& span : spans)
      if (span.action.kind == ActionKind::step)
        span.begin = std::min(last.at(span.action.version), span.end);
  return timeline;
}

Durations median_durations(const Timeline& timeline) {
  std::map<ActionKind, std::vector<double>> taken;
  std::vector<double> together;
  for (const auto& spans : timeline.stages)
    for (size_t i = 0; i < spans.size(); ++i) {
      const double seconds = spans[i].end - spans[i].begin;
      if (!spans[i].action.beside_next)
        taken[spans[i].action.kind].push_back(seconds);
      else if (spans[++i].action.kind == ActionKind::backward)
        together.push_back(seconds);
    }
  const auto of = [&](ActionKind kind) {
    const auto found = taken.find(kind);
    return found == taken.end() ? 0 : median(found->second);
  };
  const double chunks = timeline.chunks;
  return {.forward = of(ActionKind::forward) * chunks,
          .backward = of(ActionKind::backward) * chunks,
          .input_backward = of(ActionKind::input_backward) * chunks,
          .weight_backward = of(ActionKind::weight_backward) * chunks,
          .together = together.empty() ? std::nullopt : std::optional(median(together) * chunks),
          .activation = of(ActionKind::send_activation),
          .gradient = of(ActionKind::send_gradient),
          .step = of(ActionKind::step)};
}

namespace {

/// The first and the last batch of which a timeline has something.
std::pair<int, int> batches_of(const Timeline& timeline) {
  int first = std::numeric_limits<int>::max(), last = 0;
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans) {
      if (span.action.microbatch < 0) continue;
      first = std::min(first, span.action.microbatch / timeline.microbatches);
      last = std::max(last, span.action.microbatch / timeline.microbatches);
    }
  return {first, last};
}

bool makes_together(const Timeline& timeline) {
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (span.action.beside_next) return true;
  return false;
}

}  // namespace

Timeline as_planned(const ScheduleKind& kind, const Timeline& timeline) {
  const auto [first, last] = batches_of(timeline);
  return as_planned(make_schedule(kind, {.stages = static_cast<int>(timeline.stages.size()),
                                         .chunks = timeline.chunks,
                                         .microbatches = timeline.microbatches,
                                         .batches = last - first + 1,
                                         .together = makes_together(timeline)}),
                    timeline);
}

Timeline as_planned(const Schedule& schedule, const Timeline& timeline) {
  Timeline planned =
      simulate(moved_to(schedule, batches_of(timeline).first), median_durations(timeline));
  planned.unit = timeline.unit;
  return planned;
}

}  // namespace frugal::harness
