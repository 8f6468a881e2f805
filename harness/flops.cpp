#include "harness/flops.h"

#include <fmt/format.h>

namespace frugal {
namespace {

/// A product with a weight of so many elements, for each token: forward, and for the gradients of
/// both operands.
double flops(const ModelConfig& model, double sequences, int64_t weights) {
  return 6 * sequences * static_cast<double>(model.sequence) * static_cast<double>(weights);
}

/// Scores and their product with the values, of all pairs of positions.
double attention_flops(const ModelConfig& model, double sequences) {
  const auto s = static_cast<double>(model.sequence);
  return 12 * sequences * s * s * static_cast<double>(model.query_size());
}

int64_t mlp_weights(const ModelConfig& m) {
  return (is_gated(m.mlp) ? 3 : 2) * m.hidden * m.intermediate_size();
}
int64_t layer_weights(const ModelConfig& m) {
  return m.hidden * (m.qkv_size() + m.query_size()) + mlp_weights(m);
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
  return flops(model, sequences, layer_weights(model)) + attention_flops(model, sequences);
}

std::string module_formula(Module module) {
  return fmt::format("{}, one {}", eq7_id,
                     module == Module::output_layer ? "output layer" : name_of(module));
}

double model_flops_eq7(const ModelConfig& model, double sequences) {
  return static_cast<double>(model.layers) * module_flops(model, Module::layer, sequences) +
         module_flops(model, Module::output_layer, sequences);
}

double hardware_flops_eq8(const ModelConfig& model, double sequences) {
  return model_flops_eq7(model, sequences) +
         static_cast<double>(model.layers) * attention_flops(model, sequences);
}

}  // namespace frugal
