#include "engine/checkpoint/stored_names.h"

#include <map>

#include "engine/model/table_names.h"

namespace frugal::engine {
namespace {

/// All rows of a parameter of this shape.
StoredTensor whole(std::string name, const std::vector<int64_t>& shape) {
  return {std::move(name), shape, shape[0], shape[0], 0};
}

/// A tensor whose rows lie in `blocks` places of a parameter whose other extents are `of`'s.
StoredTensor blocks(std::string name, const SerialParameter& of, int64_t blocks, int64_t block,
                    int64_t stride, int64_t first) {
  std::vector<int64_t> shape = of.shape;
  shape[0] = blocks * block;
  return {std::move(name), std::move(shape), block, stride, first};
}

std::vector<StoredTensor> qkv(const ModelConfig& m, const SerialParameter& p,
                              const std::string& prefix, const std::string& kind) {
  const int64_t groups = m.key_value_heads();
  const int64_t d = m.head_size();
  const int64_t queries = m.queries_per_group() * d;
  const int64_t stride = queries + 2 * d;
  return {blocks(prefix + "q_proj." + kind, p, groups, queries, stride, 0),
          blocks(prefix + "k_proj." + kind, p, groups, d, stride, queries),
          blocks(prefix + "v_proj." + kind, p, groups, d, stride, queries + d)};
}

/// Of a layer: the parameter's name behind "layers.N.", and the tensor's behind "model.layers.N.".
const std::map<std::string, std::string>& names_in_layers(bool post_norms) {
  static const std::map<std::string, std::string> llama = {
      {"attention_norm.gamma", "input_layernorm.weight"},
      {"attention.projection.weight", "self_attn.o_proj.weight"},
      {"mlp_norm.gamma", "post_attention_layernorm.weight"},
      {"mlp.down.weight", "mlp.down_proj.weight"}};
  static const std::map<std::string, std::string> gemma = {
      {"attention_norm.gamma", "input_layernorm.weight"},
      {"attention.projection.weight", "self_attn.o_proj.weight"},
      {"attention_post_norm.gamma", "post_attention_layernorm.weight"},
      {"mlp_norm.gamma", "pre_feedforward_layernorm.weight"},
      {"mlp.down.weight", "mlp.down_proj.weight"},
      {"mlp_post_norm.gamma", "post_feedforward_layernorm.weight"}};
  return post_norms ? gemma : llama;
}

std::vector<StoredTensor> tensors_in_layer(const ModelConfig& m, const SerialParameter& p) {
  const std::string layers = "layers.";
  const size_t end = p.name.find('.', layers.size()) + 1;
  const std::string prefix = "model." + p.name.substr(0, end);
  const std::string name = p.name.substr(end);
  const std::string up = "mlp.up.";
  const std::string of_qkv = "attention.qkv.";
  if (name.starts_with(of_qkv)) return qkv(m, p, prefix + "self_attn.", name.substr(of_qkv.size()));
  if (name.starts_with(up)) {
    const int64_t rows = m.intermediate_size();
    const std::string kind = name.substr(up.size());
    return {blocks(prefix + "mlp.gate_proj." + kind, p, 1, rows, 2 * rows, 0),
            blocks(prefix + "mlp.up_proj." + kind, p, 1, rows, 2 * rows, rows)};
  }
  return {whole(prefix + names_in_layers(m.post_norms).at(name), p.shape)};
}

StoredParameter in_hugging_face(const ModelConfig& m, const SerialParameter& p) {
  static const std::map<std::string, std::string> outside = {
      {token_table, "model.embed_tokens.weight"},
      {"final_norm.gamma", "model.norm.weight"},
      {output_table, "lm_head.weight"}};
  StoredParameter stored{p.name, p.shape, {}};
  const auto found = outside.find(p.name);
  if (found != outside.end())
    stored.tensors = {whole(found->second, p.shape)};
  else
    stored.tensors = tensors_in_layer(m, p);
  return stored;
}

}  // namespace

Naming naming_of(const ModelConfig& m) {
  const bool family = m.causal && m.objective == Objective::next_token && m.norm == NormKind::rms &&
                      m.positions == PositionKind::rotary && m.bias != BiasKind::all;
  const bool gemma =
      m.post_norms && m.scaled_embedding && m.mlp == MlpKind::geglu && m.bias == BiasKind::none;
  const bool llama = !m.post_norms && !m.scaled_embedding && m.mlp == MlpKind::swiglu &&
                     m.query_scale == 0 && m.attention_softcap == 0 && m.logit_softcap == 0;
  return family && (gemma || llama) ? Naming::hugging_face : Naming::engine;
}

std::vector<StoredParameter> stored_parameters(const ModelConfig& model) {
  const Naming naming = naming_of(model);
  std::vector<StoredParameter> all;
  for (const SerialParameter& p : serial_parameters(model))
    all.push_back(naming == Naming::hugging_face
                      ? in_hugging_face(model, p)
                      : StoredParameter{p.name, p.shape, {whole(p.name, p.shape)}});
  return all;
}

}  // namespace frugal::engine
