#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// 1F1B with its backward split in two; `delay`: by how many microbatches the weights' part lags
/// behind the inputs'. So the last stages, which start late, have weights' gradients left to
/// compute at the end.
Passes split_backward(int microbatches, int warm_up, int delay) {
  warm_up = std::min(warm_up, microbatches);
  Passes passes;
  for (int k = 0; k < warm_up; ++k) passes.forward(k);
  for (int k = 0; k < microbatches; ++k) {
    if (k + warm_up < microbatches) passes.forward(k + warm_up);
    passes.input_backward(k);
    if (k >= delay) passes.weight_backward(k - delay);
  }
  for (int k = std::max(microbatches - delay, 0); k < microbatches; ++k) passes.weight_backward(k);
  return passes;
}

}  // namespace

constinit const ScheduleKind ScheduleKind::zero_bubble_h1 = {
    .name = "zb-h1",
    .help = "1F1B with the weights' gradients put off to fill the bubble, by s microbatches",
    .source = "Qi et al. 2024, section 2.3 and table 2",
    .splits_backward = true,
    .passes =
        [](const StageFill& fill) {
          return split_backward(fill.microbatches, fill.to_end() - 1, fill.stage);
        },
    .in_flight = in_flight_of_1f1b,
};

/// No stage ever waits where the three kinds of pass take equal time and microbatches ≥ 2 · stages
/// − 1.
constinit const ScheduleKind ScheduleKind::zero_bubble_h2 = {
    .name = "zb-h2",
    .help =
        "zb-h1 with twice the warm-up and the delay; no stage waits between its first and "
        "last pass",
    .source = "Qi et al. 2024, section 2.3 and table 2",
    .splits_backward = true,
    .passes =
        [](const StageFill& fill) {
          return split_backward(fill.microbatches, 2 * (fill.to_end() - 1), 2 * fill.stage);
        },
    .in_flight =
        [](const StageFill& fill) { return std::min(2 * fill.to_end() - 1, fill.microbatches); },
};

}  // namespace frugal::engine
