#include "engine/schedule/passes.h"

namespace frugal::engine {

constinit const ScheduleKind ScheduleKind::inter_layer = {
    .name = "inter-layer",
    .help = "one microbatch at a time, no pipeline",
    .source = "pipedream2bw2021, section 5: inter-layer model parallelism",
    .steady = SteadyState::alone,
    .passes =
        [](const StageFill& fill) {
          Passes passes;
          for (int k = 0; k < fill.microbatches; ++k) passes.forward(k).backward(k);
          return passes;
        },
    .in_flight = [](const StageFill&) { return 1; },
};

}  // namespace frugal::engine
