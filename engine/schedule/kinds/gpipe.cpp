#include "engine/schedule/passes.h"

namespace frugal::engine {

constinit const ScheduleKind ScheduleKind::gpipe = {
    .name = "gpipe",
    .help = "all forwards, then all backwards",
    .source = "Huang et al. 2019; pipedream2bw2021, figure 1a",
    .steady = SteadyState::one_way,
    .passes =
        [](const StageFill& fill) {
          Passes passes;
          for (int k = 0; k < fill.microbatches; ++k) passes.forward(k);
          for (int k = 0; k < fill.microbatches; ++k) passes.backward(k);
          return passes;
        },
    .in_flight = [](const StageFill& fill) { return fill.microbatches; },
};

}  // namespace frugal::engine
