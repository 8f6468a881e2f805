#include "engine/schedule/passes.h"

namespace frugal::engine {

Passes passes_of_1f1b(const StageFill& fill) {
  const int warm_up = std::min(fill.to_end() - 1, fill.microbatches);
  Passes passes;
  for (int k = 0; k < warm_up; ++k) passes.forward(k);
  for (int k = warm_up; k < fill.microbatches; ++k) passes.forward(k).backward(k - warm_up);
  for (int k = fill.microbatches - warm_up; k < fill.microbatches; ++k) passes.backward(k);
  return passes;
}

int in_flight_of_1f1b(const StageFill& fill) { return std::min(fill.to_end(), fill.microbatches); }

constinit const ScheduleKind ScheduleKind::one_forward_one_backward = {
    .name = "1f1b",
    .help = "PipeDream-Flush: a backward as soon as it can be",
    .source = "pipedream2bw2021, section 3.2 and figure 3b",
    .passes = passes_of_1f1b,
    .in_flight = in_flight_of_1f1b,
};

}  // namespace frugal::engine
