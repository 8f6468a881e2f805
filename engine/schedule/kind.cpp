#include "engine/schedule/kind.h"

namespace frugal::engine {

const std::vector<ScheduleKind>& ScheduleKind::all() {
  static const std::vector<ScheduleKind> all = {FRUGAL_SCHEDULES};
  return all;
}

std::optional<ScheduleKind> schedule_kind(std::string_view name) {
  const auto& all = ScheduleKind::all();
  const auto found = std::ranges::find(all, name, &ScheduleKind::name);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

}  // namespace frugal::engine
