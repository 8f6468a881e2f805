#include "experiments/korthikanti2022/step_artifact.h"

namespace frugal::korthikanti2022 {

RunConfig step_config(const Model& model, const Technique& technique) {
  RunConfig run = layer_config(model, technique, 1);
  const int64_t p = model.pipeline_parallel;
  run.pipeline_parallel = static_cast<int>(p);
  run.chunks = static_cast<int>(model.interleave);
  run.schedule =
      model.interleave > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
  run.microbatches = std::min(model.global_batch / model.micro_batch, 2 * p);
  return run;
}

}  // namespace frugal::korthikanti2022
