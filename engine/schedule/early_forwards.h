#pragma once
#include <vector>

#include "engine/schedule/schedule.h"

namespace frugal::engine {

/// Next batch's passes that a stage makes before its step of this one is validated: forward passes
/// that need nothing of the last stage, which is the first to know whether steps stand. They are
/// those of chunk 0 right behind the step, each with its messages, in all stages but the last. A
/// stage has no more of them than the stage before it, so that it receives nothing among them that
/// was sent when that one had validated its step.
class EarlyForwards {
 public:
  EarlyForwards() = default;
  explicit EarlyForwards(const Schedule& schedule);

  /// Passes behind the step that ends this batch, counted in the schedule.
  int passes(int stage, int batch) const {
    return passes_[static_cast<size_t>(stage)][static_cast<size_t>(batch)];
  }
  /// Number of passes and their messages.
  size_t actions(int stage, int batch) const {
    return static_cast<size_t>(passes(stage, batch)) * (stage == 0 ? 2 : 3);
  }

 private:
  std::vector<std::vector<int>> passes_;  // of each stage, behind each step
};

}  // namespace frugal::engine
