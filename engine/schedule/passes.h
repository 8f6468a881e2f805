#pragma once
#include "engine/schedule/schedule.h"

namespace frugal {

/// The order in which one stage makes its passes. Each kind of schedule is a function that says
/// only this, for a stage of its pipeline and microbatches counted from 0; messages, steps and
/// versions are added to all kinds alike (schedules.h).
class Passes {
 public:
  Passes& forward(int microbatch, int chunk = 0) {
    return add(ActionKind::forward, microbatch, chunk);
  }
  Passes& backward(int microbatch, int chunk = 0) {
    return add(ActionKind::backward, microbatch, chunk);
  }
  Passes& input_backward(int microbatch) { return add(ActionKind::input_backward, microbatch, 0); }
  Passes& weight_backward(int microbatch) {
    return add(ActionKind::weight_backward, microbatch, 0);
  }

  const Actions& actions() const { return actions_; }

 private:
  Passes& add(ActionKind kind, int microbatch, int chunk) {
    actions_.push_back({.kind = kind, .chunk = chunk, .microbatch = microbatch});
    return *this;
  }

  Actions actions_;
};

/// Model parallelism without a pipeline: one microbatch at a time is in all stages together.
Passes inter_layer(int microbatches);

/// Huang et al. 2019; pipedream2bw2021, figure 1a: each stage keeps all microbatches in flight.
Passes gpipe(int microbatches);

/// PipeDream-Flush, pipedream2bw2021, section 3.2: at most stages − stage microbatches in flight.
/// The kinds without a flush have this order too, over the microbatches of all their batches.
Passes one_forward_one_backward(int stage, int stages, int microbatches);

/// The same over several chunks of the model on each stage: Narayanan et al. 2021 (Megatron-LM),
/// section 2.2. `stages` microbatches go through a chunk before the next one's turn; microbatches
/// must be a multiple of stages.
Passes interleaved(int stage, int stages, int chunks, int microbatches);

/// Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.3: 1F1B whose stage s puts off the
/// weights' gradients by s microbatches, so that the last stages, which start late, have them left
/// to do at the end. Microbatches in flight are 1F1B's.
Passes zero_bubble_h1(int stage, int stages, int microbatches);

/// The same with twice as many warm-up forwards and twice the delay: no stage ever waits where the
/// three kinds of pass take equal time and microbatches ≥ 2 · stages − 1.
Passes zero_bubble_h2(int stage, int stages, int microbatches);

}  // namespace frugal
