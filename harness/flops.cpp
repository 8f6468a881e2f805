#include "harness/flops.h"

namespace frugal {
namespace {

/// 72 B L s h² (1 + attention · s/h + logits · v/(h L)), where the papers' equations differ in the
/// two coefficients only.
double flops(const ModelConfig& model, double sequences, double layers, double attention,
             double logits) {
  const auto h = static_cast<double>(model.hidden);
  const auto s = static_cast<double>(model.sequence);
  const auto v = static_cast<double>(model.vocabulary);
  return 72 * sequences * layers * s * h * h * (1 + attention * s / h + logits * v / (h * layers));
}

}  // namespace

double model_flops_eq7(const ModelConfig& model, double sequences) {
  return flops(model, sequences, static_cast<double>(model.layers), 1.0 / 6, 1.0 / 12);
}

double hardware_flops_eq8(const ModelConfig& model, double sequences) {
  return flops(model, sequences, static_cast<double>(model.layers), 1.0 / 3, 1.0 / 12);
}

double layer_flops_eq7(const ModelConfig& model, double sequences) {
  return flops(model, sequences, 1, 1.0 / 6, 0);
}

}  // namespace frugal
