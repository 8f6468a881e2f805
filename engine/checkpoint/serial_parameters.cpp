#include "engine/checkpoint/serial_parameters.h"

#include <functional>
#include <numeric>

#include "engine/model/table_names.h"

namespace frugal::engine {
namespace {

/// Collects parameters, whose names have a prefix.
class List {
 public:
  explicit List(const ModelConfig& model) : m_(model) {}

  void add(const std::string& name, std::vector<int64_t> shape) {
    all.push_back({prefix + name, std::move(shape)});
  }
  void norm(const std::string& name) {
    add(name + ".gamma", {m_.hidden});
    if (m_.norm == NormKind::layer) add(name + ".beta", {m_.hidden});
  }
  void linear(const std::string& name, int64_t outputs, int64_t inputs, bool bias) {
    add(name + ".weight", {outputs, inputs});
    if (bias) add(name + ".bias", {outputs});
  }
  void layer() {
    const bool all_biases = m_.bias == BiasKind::all;
    norm("attention_norm");
    linear("attention.qkv", m_.qkv_size(), m_.hidden, m_.bias != BiasKind::none);
    linear("attention.projection", m_.hidden, m_.query_size(), all_biases);
    if (m_.post_norms) norm("attention_post_norm");
    norm("mlp_norm");
    const int64_t wide = m_.intermediate_size();
    linear("mlp.up", is_gated(m_.mlp) ? 2 * wide : wide, m_.hidden, all_biases);
    linear("mlp.down", m_.hidden, wide, all_biases);
    if (m_.post_norms) norm("mlp_post_norm");
  }

  std::vector<SerialParameter> all;
  std::string prefix;

 private:
  const ModelConfig& m_;
};

}  // namespace

std::vector<SerialParameter> serial_parameters(const ModelConfig& model) {
  List list(model);
  list.add(token_table, {model.vocabulary, model.hidden});
  if (model.positions == PositionKind::learned)
    list.add(position_table, {model.sequence, model.hidden});
  for (int64_t i = 0; i < model.layers; ++i) {
    list.prefix = "layers." + std::to_string(i) + ".";
    list.layer();
  }
  list.prefix.clear();
  list.norm("final_norm");
  if (!model.tied) list.add(output_table, {model.vocabulary, model.hidden});
  return list.all;
}

int64_t parameter_count(const ModelConfig& model) {
  int64_t count = 0;
  for (const SerialParameter& p : serial_parameters(model))
    count += std::accumulate(p.shape.begin(), p.shape.end(), int64_t{1}, std::multiplies<>());
  return count;
}

}  // namespace frugal::engine
