#include "engine/optimizer/train_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace frugal::engine {

std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::momentum:
      return "momentum";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
  }
  return "?";
}

double TrainConfig::learning_rate(int64_t step) const {
  const double top = optimizer.learning_rate;
  if (step < warm_up) return top * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (steps <= warm_up) return top;
  const double done = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return top * (0.1 + 0.9 * cosine);
}

}  // namespace frugal::engine
