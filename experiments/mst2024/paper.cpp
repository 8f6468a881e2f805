#include "experiments/mst2024/paper.h"

#include "harness/settings/models.h"

namespace frugal::experiments::mst2024 {

const Paper& paper() {
  static const Paper all(paper_id);
  return all;
}

RunConfig training_config(const std::string& model, const Technique& technique, int64_t sequence,
                          Gradients gradients) {
  RunConfig run;
  run.model = find_model(model);
  run.model.sequence = sequence;
  run.type = DType::bf16;
  run.precision = Precision::pure;
  run.attention = AttentionKind::fused;
  run.recompute = technique.recompute;
  run.step_in_backward = gradients == Gradients::stepped;
  if (gradients == Gradients::accumulated) run.microbatches = 2;
  if (technique.mini_sequences) run.mlp_chunks = run.head_chunks = RunConfig::by_rule;
  return run;
}

}  // namespace frugal::experiments::mst2024
