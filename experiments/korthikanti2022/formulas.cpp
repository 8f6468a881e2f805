#include "experiments/korthikanti2022/formulas.h"

#include "kernels/support/error.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

int64_t sbh(const RunConfig& run) {
  return run.model.sequence * run.micro_batch * run.model.hidden;
}

}  // namespace

int64_t layer_activation_bytes(const RunConfig& run) {
  if (run.recompute == Recompute::full) {
    if (run.sequence_parallel)
      throw InputError(
          "table 2 has no row for full recomputation with sequence parallelism; leave one of them "
          "out");
    return 2 * sbh(run);
  }
  const ModelConfig& model = run.model;
  const bool dropped =
      run.recompute == Recompute::selective || run.attention == AttentionKind::fused;
  const int64_t core =
      dropped ? 0 : 5 * model.heads * model.sequence * model.sequence * run.micro_batch;
  const int64_t replicated = run.sequence_parallel ? 0 : 10;
  return replicated * sbh(run) + ((34 - replicated) * sbh(run) + core) / run.tensor_parallel;
}

LayerParts layer_activation_parts(const RunConfig& run) {
  const ModelConfig& model = run.model;
  return {.attention =
              11 * sbh(run) + 5 * model.heads * model.sequence * model.sequence * run.micro_batch,
          .mlp = 19 * sbh(run),
          .norms = 4 * sbh(run)};
}

double first_stage_activation_bytes(const RunConfig& run, const Pipeline& pipeline) {
  const auto [p, m] = pipeline;
  const double interleaving =
      m == 1 ? 1 : 1 + static_cast<double>(p - 1) / static_cast<double>(p * m);
  return static_cast<double>(layer_activation_bytes(run) * run.model.layers) * interleaving;
}

double outside_activation_bytes(const RunConfig& run, const Pipeline& pipeline) {
  const int64_t tokens = run.model.sequence * run.micro_batch;
  int64_t bytes = sbh(run) * pipeline.stages;
  if (pipeline.stages == 1) bytes += 4 * tokens * (run.model.hidden + run.model.vocabulary);
  return static_cast<double>(bytes) / static_cast<double>(run.tensor_parallel);
}

int64_t parameters(const ModelConfig& model) {
  const int64_t h = model.hidden;
  return model.layers * (12 * h * h + 13 * h) + (model.vocabulary + model.sequence) * h;
}

double state_bytes(const RunConfig& run, const Pipeline& pipeline) {
  return 18 * static_cast<double>(parameters(run.model)) /
         static_cast<double>(run.tensor_parallel * pipeline.stages);
}

double hardware_over_model_eq9(const ModelConfig& model) {
  return 1 + static_cast<double>(model.sequence) / (6 * static_cast<double>(model.hidden));
}

double core_recompute_fraction(const ModelConfig& model) {
  const auto s = static_cast<double>(model.sequence);
  const auto h = static_cast<double>(model.hidden);
  return 4 * s * s * h * static_cast<double>(model.layers) / model_flops(model, 1);
}

double utilization(double flops, double seconds, double devices, double peak_flops) {
  return flops / (seconds * devices * peak_flops);
}

}  // namespace frugal::experiments::korthikanti2022
