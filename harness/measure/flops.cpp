#include "harness/measure/flops.h"

#include <fmt/format.h>

#include "kernels/operations.h"

namespace frugal::harness {
namespace {

/// A product with a weight of so many elements, for each token: forward, and for the gradients of
/// both operands.
double flops(const ModelConfig& model, double sequences, int64_t weights) {
  return 6 * sequences * static_cast<double>(model.sequence) * static_cast<double>(weights);
}

Pairs pairs_counted(const ModelConfig& model) {
  return model.positions == PositionKind::rotary ? Pairs::visible : Pairs::all;
}

/// Pairs of positions of one sequence whose scores count.
double number_of(Pairs pairs, const ModelConfig& model, int64_t layer) {
  FusedAttention attention;
  attention.q = attention.k = View(nullptr, DType::f32, {1, model.sequence, 1});
  attention.causal = pairs == Pairs::visible && model.causal;
  attention.window = pairs == Pairs::visible ? model.window_of(layer) : 0;
  return attention.pairs();
}

/// Scores and their product with the values.
double attention_flops(const ModelConfig& model, int64_t layer, double sequences, Pairs pairs) {
  return 12 * sequences * number_of(pairs, model, layer) * static_cast<double>(model.query_size());
}

int64_t mlp_weights(const ModelConfig& m) {
  return (is_gated(m.mlp) ? 3 : 2) * m.hidden * m.intermediate_size();
}
int64_t layer_weights(const ModelConfig& m) {
  return m.hidden * (m.qkv_size() + m.query_size()) + mlp_weights(m);
}

double layer_flops(const ModelConfig& model, int64_t layer, double sequences, Pairs pairs) {
  return flops(model, sequences, layer_weights(model)) +
         attention_flops(model, layer, sequences, pairs);
}

}  // namespace

double module_flops(const ModelConfig& model, Module module, double sequences) {
  switch (module) {
    case Module::mlp:
      return flops(model, sequences, mlp_weights(model));
    case Module::output_layer:
      return flops(model, sequences, model.vocabulary * model.hidden);
    case Module::layer:
      break;
  }
  return layer_flops(model, 0, sequences, pairs_counted(model));
}

std::string module_formula(const ModelConfig& model, Module module) {
  return fmt::format("{}, one {}", model_formula(model),
                     module == Module::output_layer ? "output layer" : name_of(module));
}

double model_flops(const ModelConfig& model, double sequences) {
  return model_flops(model, sequences, pairs_counted(model));
}

double model_flops(const ModelConfig& model, double sequences, Pairs pairs) {
  double sum = module_flops(model, Module::output_layer, sequences);
  for (int64_t layer = 0; layer < model.layers; ++layer)
    sum += layer_flops(model, layer, sequences, pairs);
  return sum;
}

std::string model_formula(const ModelConfig& model) {
  return pairs_counted(model) == Pairs::visible ? visible_pairs_id : eq7_id;
}

double hardware_flops_eq8(const ModelConfig& model, double sequences) {
  double sum = model_flops(model, sequences);
  for (int64_t layer = 0; layer < model.layers; ++layer)
    sum += attention_flops(model, layer, sequences, pairs_counted(model));
  return sum;
}

double device_hours_per_billion_tokens(const RunConfig& run, double step_seconds) {
  const double sequences =
      static_cast<double>(run.micro_batch) * run.microbatches * run.data_parallel;
  const double tokens = sequences * static_cast<double>(run.model.sequence);
  constexpr double billion = 1e9, hour = 3600;
  return run.ranks() * step_seconds / tokens * billion / hour;
}

}  // namespace frugal::harness
