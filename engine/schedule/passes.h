#pragma once
#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// The order in which one stage makes its passes: what a kind of schedule says of itself
/// (ScheduleKind::passes).
class Passes {
 public:
  Passes& forward(int microbatch, int chunk = 0) {
    return add(ActionKind::forward, microbatch, chunk);
  }
  Passes& backward(int microbatch, int chunk = 0) {
    return add(ActionKind::backward, microbatch, chunk);
  }
  Passes& input_backward(int microbatch, int chunk = 0) {
    return add(ActionKind::input_backward, microbatch, chunk);
  }
  Passes& weight_backward(int microbatch, int chunk = 0) {
    return add(ActionKind::weight_backward, microbatch, chunk);
  }
  /// The forward pass that was added last is made together with the backward pass that comes next.
  Passes& beside() {
    actions_.back().beside_next = true;
    return *this;
  }

  const Actions& actions() const { return actions_; }

 private:
  Passes& add(ActionKind kind, int microbatch, int chunk) {
    actions_.push_back({.kind = kind, .chunk = chunk, .microbatch = microbatch});
    return *this;
  }

  Actions actions_;
};

/// The order of 1F1B, pipedream2bw2021, section 3.2: at most stages − stage microbatches in flight.
/// The kinds without a flush have it too, over the microbatches of all their batches.
Passes passes_of_1f1b(const StageFill& fill);
int in_flight_of_1f1b(const StageFill& fill);

}  // namespace frugal::engine
