#include "harness/measure/runs/whole_model.h"

namespace frugal::harness {

WholeModel::WholeModel(std::unique_ptr<Cluster> cluster, const RunConfig& config, bool layer)
    : cluster_(std::move(cluster)) {
  if (layer) {
    layer_.emplace(*cluster_);
  } else {
    trainer_.emplace(*cluster_, config, TrainConfig{});
    batch_ = random_batch(config, 0);
  }
}

double WholeModel::seconds() {
  if (trainer_) return trainer_->step(batch_).seconds;
  const ModuleTime time = layer_->time();
  return time.forward + time.backward;
}

}  // namespace frugal::harness
