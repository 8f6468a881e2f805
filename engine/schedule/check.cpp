#include "engine/schedule/check.h"

#include <fmt/format.h>

#include "engine/schedule/check_parts.h"
#include "engine/schedule/dependencies.h"
#include "engine/schedule/peaks.h"
#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "kernels/support/error.h"

namespace frugal::engine {

std::string Finding::describe() const {
  if (stage < 0) return reason;
  if (action < 0 && text.empty()) return fmt::format("stage {}: {}", stage, reason);
  if (action < 0) return fmt::format("stage {}, {}: {}", stage, text, reason);
  return fmt::format("stage {}, action {} ({}): {}", stage, action, text, reason);
}

Finding finding(const Schedule& schedule, int stage, int action, std::string reason) {
  const std::string text = to_text(schedule.actions[stage][action], schedule.chunks);
  return {.stage = stage, .action = action, .text = text, .reason = std::move(reason)};
}

Finding finding(int stage, std::string reason) {
  return {.stage = stage, .action = -1, .text = "", .reason = std::move(reason)};
}

Finding missing(const Schedule& schedule, int stage, const Action& action, std::string reason) {
  std::string text = to_text(action, schedule.chunks);
  text.resize(std::min(text.find('@'), text.size()));  // nothing that is absent has a version
  return {.stage = stage, .action = -1, .text = text, .reason = std::move(reason)};
}

void check_deadlock(const Schedule& schedule, int capacity, Findings& findings) {
  const Dependencies dependencies(schedule, capacity);
  const std::vector<int> cycle = dependencies.cycle();
  if (cycle.empty()) return;
  std::string circle = fmt::format("waits for itself, with channels of {} messages: ", capacity);
  for (const int node : cycle) {
    const int stage = dependencies.stage_of(node), action = dependencies.action_of(node);
    circle += fmt::format("{} (stage {}, action {}) waits for ",
                          to_text(schedule.actions[stage][action], schedule.chunks), stage, action);
  }
  const int stage = dependencies.stage_of(cycle[0]), action = dependencies.action_of(cycle[0]);
  findings.push_back(finding(schedule, stage, action, circle + "the first"));
}

void check_peaks(const Schedule& schedule, Findings& findings) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto hold = [&](std::string_view what, int peak, int limit) {
      if (peak > limit)
        findings.push_back(
            finding(stage, fmt::format("it holds up to {} {} at once; {} allows it {}", peak, what,
                                       name_of(schedule.kind), limit)));
    };
    const Actions& actions = schedule.actions[stage];
    hold(schedule.chunks == 1 ? "microbatches" : "microbatches times chunks",
         peak_in_flight(actions), schedule.kind.in_flight(schedule.fill(stage)));
    hold("versions of its weights", peak_versions(actions, schedule.first_batch),
         schedule.kind.versions_limit(schedule.fill(stage)));
  }
}

Findings check(const Schedule& schedule, int capacity) {
  const ScheduleShape shape = {.stages = schedule.stages,
                               .chunks = schedule.chunks,
                               .microbatches = schedule.microbatches,
                               .first_batch = schedule.first_batch,
                               .batches = schedule.batches};
  shape.validate(schedule.kind);
  if (capacity < 0)
    throw InputError(fmt::format("the channels' capacity is {}; it must be at least 0", capacity));
  Findings findings;
  for (const auto part : {check_contents, check_order, check_channels}) {
    part(schedule, findings);
    if (!findings.empty()) return findings;
  }
  check_deadlock(schedule, capacity, findings);
  check_versions(schedule, findings);
  check_peaks(schedule, findings);
  return findings;
}

void require_valid(const Schedule& schedule, const std::string& name, int capacity) {
  const Findings findings = check(schedule, capacity);
  if (findings.empty()) return;
  const std::string more = findings.size() == 1
                               ? ""
                               : fmt::format(" (and {} more{})", findings.size() - 1,
                                             findings.size() < most_findings ? "" : " at least");
  throw InputError(fmt::format("{}: {}{}", name, findings.front().describe(), more));
}

}  // namespace frugal::engine
