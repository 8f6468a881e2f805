#include "engine/schedule/passes.h"

namespace frugal::engine {
namespace {

/// Counts a stage's passes of each kind and chunk, and makes the next one.
class InTurn {
 public:
  explicit InTurn(int microbatches) : microbatches_(microbatches) {}

  void forward(int chunk) {
    if (const int k = forwards[chunk]++; k < microbatches_) passes.forward(k, chunk);
  }
  void input_backward(int chunk) {
    if (const int k = inputs[chunk]++; k < microbatches_) passes.input_backward(k, chunk);
  }
  void weight_backward(int chunk) {
    if (const int k = weights[chunk]++; k < microbatches_) passes.weight_backward(k, chunk);
  }
  void whole_backward(int chunk) {
    input_backward(chunk);
    weight_backward(chunk);
  }

  Passes passes;
  int forwards[2] = {}, inputs[2] = {}, weights[2] = {};

 private:
  const int microbatches_;
};

/// Chunk 0 fills the V on its way down, chunk 1 on its way up; in between each stage takes turns
/// with both. Of fewer microbatches than fill the V the same order, without those that are missing.
Passes zero_bubble_v_passes(const StageFill& fill) {
  const int above = fill.stage, below = fill.to_end();
  const int microbatches = std::max(fill.microbatches, 2 * fill.stages - 1);
  InTurn turn(fill.microbatches);
  for (int i = 0; i < 2 * below - 1; ++i) turn.forward(0);
  for (int i = 0; i < above; ++i) {
    turn.forward(1);
    turn.forward(0);
  }
  for (int i = 0; i < below; ++i) {
    turn.forward(1);
    turn.whole_backward(1);
  }
  while (turn.forwards[1] < microbatches) {
    if (turn.forwards[0] < microbatches) turn.forward(0);
    turn.whole_backward(0);
    turn.forward(1);
    turn.whole_backward(1);
  }
  for (int i = 0; i < above; ++i) {
    turn.input_backward(0);
    turn.input_backward(1);
  }
  for (int i = 0; i < below; ++i) turn.whole_backward(0);
  while (turn.weights[1] < microbatches) turn.weight_backward(1);
  while (turn.weights[0] < microbatches) turn.weight_backward(0);
  return turn.passes;
}

}  // namespace

/// No stage ever waits where the three kinds of pass take equal time and microbatches ≥ 2 · stages
/// − 1, and none holds more than 1F1B's first.
constinit const ScheduleKind ScheduleKind::zero_bubble_v = {
    .name = "zb-v",
    .help = "two chunks in a V, so that no stage waits, in the memory of 1f1b",
    .source = "Qi et al. 2024, section 6; Qi et al. 2024b (controllable memory), section 3.3: V-ZB",
    .splits_backward = true,
    .has_chunks = true,
    .chunks = 2,
    .placement = Placement::to_and_fro,
    .passes = zero_bubble_v_passes,
    .in_flight = [](const StageFill& fill) { return 2 * std::min(fill.stages, fill.microbatches); },
};

}  // namespace frugal::engine
