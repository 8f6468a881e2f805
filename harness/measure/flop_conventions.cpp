#include "harness/measure/flop_conventions.h"

#include <functional>
#include <numeric>

#include "engine/checkpoint/serial_parameters.h"
#include "engine/model/table_names.h"
#include "harness/measure/flops.h"

namespace frugal::harness {
namespace {

/// Parameters that conventions count or leave out.
struct ParameterCounts {
  double all = 0;
  double layers = 0;
  double multiplied = 0;  ///< without tables whose rows are only looked up
};

ParameterCounts counts_of(const ModelConfig& model) {
  ParameterCounts counts;
  for (const SerialParameter& p : serial_parameters(model)) {
    const auto size = static_cast<double>(
        std::accumulate(p.shape.begin(), p.shape.end(), int64_t{1}, std::multiplies<>()));
    const bool looked_up = p.name == position_table || (p.name == token_table && !model.tied);
    counts.all += size;
    if (!looked_up) counts.multiplied += size;
    if (p.name.starts_with("layers.")) counts.layers += size;
  }
  return counts;
}

}  // namespace

std::vector<FlopConvention> flop_conventions(const ModelConfig& model, double sequences) {
  const ParameterCounts counts = counts_of(model);
  const double tokens = sequences * static_cast<double>(model.sequence);
  const double all_pairs = 12.0 * static_cast<double>(model.layers) *
                           static_cast<double>(model.query_size()) *
                           static_cast<double>(model.sequence);
  return {{"6 N", "all parameters, no scores", "a rule of thumb", 6 * counts.all * tokens},
          {"6 N, layers", "parameters of layers, no scores", "Kaplan et al. 2020, arXiv:2001.08361",
           6 * counts.layers * tokens},
          {"6 N + 12 L H Q T", "all parameters, scores of all pairs",
           "PaLM, arXiv:2204.02311, appendix B", (6 * counts.all + all_pairs) * tokens},
          {"6 N + 12 L H Q T, multiplied",
           "parameters but for tables that are looked up, scores of all pairs",
           "nanoGPT, torchtitan", (6 * counts.multiplied + all_pairs) * tokens},
          {"equation 7", "products with weights, scores of all pairs", eq7_id,
           model_flops(model, sequences, Pairs::all)},
          {"visible pairs", "products with weights, scores that mask and window leave",
           "frugal, of rotary models", model_flops(model, sequences, Pairs::visible)}};
}

}  // namespace frugal::harness
