#include <fmt/format.h>

#include "engine/schedule/check_parts.h"
#include "engine/schedule/schedules.h"

namespace frugal::engine {
namespace {

/// What is wrong with the version that a pass uses when `newest` is the last one made; empty where
/// nothing is. `rule`: the one that the kind of schedule says.
std::string wrong_version(const Schedule& schedule, int stage, const Action& pass,
                          const Action& forward, int newest, int rule) {
  if (pass.version != forward.version)
    return fmt::format("its forward used version {}", forward.version);
  if (pass.version > newest)
    return fmt::format("version {} is not made yet; the newest is {}", pass.version, newest);
  const int kept = schedule.kind.versions_limit(schedule.fill(stage));
  if (pass.version <= newest - kept)
    return fmt::format("version {} is gone: {} versions are kept here and the newest is {}",
                       pass.version, kept, newest);
  if (pass.version != rule)
    return fmt::format("{} uses version {} here", name_of(schedule.kind), rule);
  return "";
}

}  // namespace

void check_versions(const Schedule& schedule, Findings& findings) {
  Schedule by_rule = schedule;
  assign_versions(by_rule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const ActionIndex index(schedule, stage);
    const Actions& actions = schedule.actions[stage];
    int newest = schedule.first_batch;
    for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
      const Action& action = actions[i];
      std::string reason;
      if (action.kind == ActionKind::step && action.version != ++newest)
        reason = fmt::format("this step makes version {}", newest);
      if (is_pass(action.kind)) {
        const int forward = index.find(ActionKind::forward, action.microbatch, action.chunk);
        reason = wrong_version(schedule, stage, action, actions[forward], newest,
                               by_rule.actions[stage][i].version);
      }
      if (!reason.empty()) findings.push_back(finding(schedule, stage, i, std::move(reason)));
    }
  }
}

}  // namespace frugal::engine
