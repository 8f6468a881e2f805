#include "engine/schedule/check.h"
#include "engine/schedule/draw.h"
#include "engine/schedule/peaks.h"
#include "engine/schedule/text.h"
#include "engine/schedule/timeline.h"
#include "kernels/support/json_file.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// A schedule's file. One that is right is simulated, too.
void read_schedule(const std::string& path) {
  const engine::Schedule schedule = engine::schedule_from_text(kernels::read_text(path), path);
  require(engine::schedule_from_text(engine::to_text(schedule), path) == schedule,
          "the schedule is not what was written");
  for (const int capacity : {0, 1})
    if (engine::check(schedule, capacity).empty()) {
      const engine::Timeline timeline = engine::simulate(schedule);
      require(timeline.stages.size() == schedule.actions.size(), "a stage has no time");
      (void)engine::bubbles(timeline);
    }
}

const bool schedule_added = add_target({"schedule", "schedule.txt", read_schedule});

}  // namespace
}  // namespace frugal::testing
