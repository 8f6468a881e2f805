#include "engine/optimizer/train_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/options/fields.h"

namespace frugal::engine {

double TrainConfig::learning_rate(int64_t step) const {
  const double top = optimizer.learning_rate;
  if (step < warm_up) return top * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (steps <= warm_up) return top;
  const double done = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return top * (0.1 + 0.9 * cosine);
}

void OptimizerOptions::describe(Fields<OptimizerOptions>& f) {
  using O = OptimizerOptions;
  const allowed::Real number{0, 1e9};
  f.section(Section::training);
  f.choice("optimizer", &O::kind, "Weight decay is decoupled from the gradient but for adam")
      .written();
  f.real("learning_rate", &O::learning_rate, number,
         "After warm-up and before its cosine decay to a tenth")
      .written();
  f.real("momentum", &O::momentum, {0, 1},
         "Part of the moment that a step keeps, with optimizer=momentum")
      .written_where([](const O& o) { return o.kind == OptimizerKind::momentum; });
  f.real("weight_prediction", &O::prediction, {0, 16},
         "With schedule=2bw, whose gradients come one step late: compute them with weights that "
         "are so many further updates ahead; 1 makes up for the delay");
  f.real("weight_decay", &O::weight_decay, number, "Of all parameters").written();
  f.real("clip", &O::clip, number,
         "Greatest norm of the gradient of the whole model; 0: none, and stages without a flush "
         "do not wait for each other. 1 otherwise, and 0 with step_in_backward")
      .in(Section::memory)
      .behind("step_in_backward")
      .written()
      .usually_follows();
}

void TrainConfig::describe(Fields<TrainConfig>& f) {
  f.section(Section::steps);
  f.number("steps", &TrainConfig::steps, {1},
           "Training steps; otherwise 1, or the batches of a schedule_file")
      .written()
      .usually_follows();
  f.number("warm_up", &TrainConfig::warm_up, {0},
           "Steps in which the learning rate rises; a twentieth of all otherwise")
      .written()
      .usually_follows();
}

}  // namespace frugal::engine
