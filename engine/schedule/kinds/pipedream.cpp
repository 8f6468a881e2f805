#include "engine/schedule/passes.h"

namespace frugal::engine {

// The last stage uses a microbatch's update at once, when the first stage has not computed its part
// of it yet: nothing can be tied.
constinit const ScheduleKind ScheduleKind::pipedream = {
    .name = "pipedream",
    .help = "1F1B without a flush; each microbatch uses the newest version on each stage",
    .source = "Narayanan et al. 2019; pipedream2bw2021, figure 1b",
    .flushes = false,
    .version = [](const VersionsThen& there) { return there.newest; },
    .versions = [](const StageFill& fill) { return fill.to_end(); },
    .ties_tables = false,
    .passes = passes_of_1f1b,
    .in_flight = in_flight_of_1f1b,
};

constinit const ScheduleKind ScheduleKind::pipedream_vertical_sync = {
    .name = "pipedream-vertical-sync",
    .help = "pipedream whose microbatches use the version of stage 0 on all stages",
    .source = "Narayanan et al. 2019, section 3.3",
    .flushes = false,
    .version = [](const VersionsThen& there) { return there.newest_of_first; },
    .versions = [](const StageFill& fill) { return fill.stages; },
    .passes = passes_of_1f1b,
    .in_flight = in_flight_of_1f1b,
};

}  // namespace frugal::engine
