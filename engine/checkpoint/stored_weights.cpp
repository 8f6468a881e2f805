#include "engine/checkpoint/stored_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/model/table_names.h"
#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

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

/// Names of a layer: the parameter's behind "layers.N.", and the tensor's behind "model.layers.N.".
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

/// File or index of a folder. If both are there, the file is the whole model.
std::string file_in(const std::string& path) {
  if (!is_folder(path)) return path;
  constexpr const char* file = "model.safetensors";
  constexpr const char* index = "model.safetensors.index.json";
  for (const char* name : {file, index}) {
    const auto inside = std::filesystem::path(path) / name;
    if (is_there(inside)) return inside.string();
  }
  throw InputError(
      fmt::format("{}: neither {} nor {} is in this folder; give one with either, or a file", path,
                  file, index));
}

std::map<std::string, StoredParameter> by_name(const ModelConfig& model) {
  std::map<std::string, StoredParameter> all;
  for (StoredParameter& p : stored_parameters(model)) all.emplace(p.name, std::move(p));
  return all;
}

/// Calls action(first element in the parameter, first element in the tensor, elements) for each
/// block of rows.
template <class Action>
void for_blocks(const StoredTensor& part, const Action& action) {
  int64_t width = 1;
  for (size_t i = 1; i < part.shape.size(); ++i) width *= part.shape[i];
  int64_t row = part.first;
  for (int64_t from = 0; from < part.shape[0]; from += part.block, row += part.stride)
    action(row * width, from * width, part.block * width);
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

TensorFiles::TensorFiles(const std::string& path) : path_(file_in(path)) {
  path_.ends_with(".json") ? add_index() : add_file();
}

void TensorFiles::add_file() {
  auto& reader = readers_[path_] = std::make_unique<safetensors::Reader>(path_);
  for (const auto& [name, _] : reader->entries()) tensors_[name] = reader.get();
}

void TensorFiles::add_index() {
  const nlohmann::json json = load_json(path_);
  const JsonObject map = JsonObject(json, path_).object("weight_map");
  for (const auto& [name, _] : json.at("weight_map").items()) {
    const auto file = map.require<std::string>(name);
    // Nothing but files beside the index is opened, whatever it says.
    if (file.empty() || file.find_first_of("/\\") != std::string::npos || file == "." ||
        file == "..")
      map.fail(
          name,
          fmt::format("is in \"{}\"; it must be a file beside the index, without a folder", file));
    const auto beside = std::filesystem::path(path_).replace_filename(file);
    auto& reader = readers_[file];
    if (!reader) {
      if (!is_there(beside))
        map.fail(name, fmt::format("is in {}, which is not beside the index; put it there", file));
      reader = std::make_unique<safetensors::Reader>(beside.string());
    }
    if (!reader->entries().contains(name))
      map.fail(name, fmt::format("is not in {}; take file and index from the same model", file));
    tensors_[name] = reader.get();
  }
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, _] : tensors_) names.push_back(name);
  return names;
}

const safetensors::Entry* TensorFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second->entries().at(name);
}

void TensorFiles::read(const std::string& name, int64_t first, std::span<double> values) {
  tensors_.at(name)->read(name, first, values);
}

std::vector<std::string> TensorFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& [_, reader] : readers_) paths.push_back(reader->path());
  return paths;
}

StoredWeights::StoredWeights(const std::string& path, const ModelConfig& model)
    : files_(path), model_(model.name), tied_(model.tied), parameters_(by_name(model)) {
  std::set<std::string> known;
  for (const auto& [_, parameter] : parameters_)
    for (const StoredTensor& tensor : parameter.tensors) {
      check(tensor);
      known.insert(tensor.name);
    }
  for (const std::string& name : files_.names())
    if (!known.contains(name)) check_unknown(name);
}

void StoredWeights::check(const StoredTensor& tensor) const {
  const safetensors::Entry* entry = files_.find(tensor.name);
  const std::string which = fmt::format("{}: tensor {}", files_.path(), tensor.name);
  if (entry == nullptr)
    throw InputError(fmt::format("{} is missing, and model {} has it; give another file or model",
                                 which, model_));
  if (entry->shape != tensor.shape)
    throw InputError(
        fmt::format("{} has shape [{}], model {} needs [{}]; give another file or model", which,
                    fmt::join(entry->shape, ", "), model_, fmt::join(tensor.shape, ", ")));
  if (entry->stored == safetensors::Stored::i32)
    throw InputError(fmt::format(
        "{} has dtype I32; weights are F32, F64, BF16 or F16; write the file again", which));
}

void StoredWeights::check_unknown(const std::string& name) {
  if (name.ends_with(".rotary_emb.inv_freq")) return;
  const StoredParameter& table = parameters_.at(token_table);
  const std::string& stored_table = table.tensors.front().name;
  const bool output = name == "lm_head.weight" || name == output_table;
  if (tied_ && output && files_.find(name)->shape == table.shape && equal(name, stored_table))
    return;
  throw InputError(
      tied_ && output
          ? fmt::format("{}: tensor {} is not {}, and in model {} they are the same; give another "
                        "file, or a model whose embeddings are not tied",
                        files_.path(), name, stored_table, model_)
          : fmt::format("{}: model {} has no tensor {}; give another file or model", files_.path(),
                        model_, name));
}

bool StoredWeights::equal(const std::string& a, const std::string& b) {
  constexpr int64_t most = 1 << 20;
  const int64_t size = files_.find(a)->elements();
  for (int64_t at = 0; at < size; at += most) {
    std::vector<double> left(static_cast<size_t>(std::min(most, size - at)));
    std::vector<double> right(left.size());
    files_.read(a, at, left);
    files_.read(b, at, right);
    if (left != right) return false;
  }
  return true;
}

HostTensor StoredWeights::weight(const std::string& name) {
  // The last stage's table is a copy with weight stashing, though the model's are tied.
  const StoredParameter& p = parameters_.at(tied_ && name == output_table ? token_table : name);
  HostTensor weight = zero_host_tensor(p.shape);
  const std::span<double> values(weight.values);
  for (const StoredTensor& tensor : p.tensors)
    for_blocks(tensor, [&](int64_t at, int64_t from, int64_t count) {
      files_.read(tensor.name, from,
                  values.subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
    });
  return weight;
}

StoredWeightsWriter::StoredWeightsWriter(const std::string& path, const ModelConfig& model,
                                         DType type, safetensors::Metadata metadata)
    : parameters_(by_name(model)) {
  using safetensors::Stored;
  std::vector<safetensors::Writer::Tensor> tensors;
  for (const StoredParameter& p : stored_parameters(model))
    for (const StoredTensor& tensor : p.tensors)
      tensors.push_back(
          {tensor.name, tensor.shape, type == DType::bf16 ? Stored::bf16 : Stored::f32});
  metadata["format"] = "pt";  // without it Hugging Face's library refuses a file
  writer_.emplace(path, tensors, metadata);
}

void StoredWeightsWriter::write(const std::string& name, const HostTensor& weight) {
  const StoredParameter& p = parameters_.at(name);
  for (const StoredTensor& tensor : p.tensors)
    writer_->write(tensor.name, stored_part(tensor, weight).values);
}

HostTensor stored_part(const StoredTensor& part, const HostTensor& serial) {
  HostTensor tensor = zero_host_tensor(part.shape);
  for_blocks(part, [&](int64_t at, int64_t to, int64_t count) {
    std::copy_n(serial.values.begin() + at, count, tensor.values.begin() + to);
  });
  return tensor;
}

HostTensors in_stored_names(const ModelConfig& model, HostTensors tensors) {
  for (const StoredParameter& p : stored_parameters(model))
    for (const char* kind : {"weight/", "gradient/"}) {
      const auto serial = tensors.extract(kind + p.name);
      if (serial.empty()) continue;
      for (const StoredTensor& part : p.tensors)
        tensors[kind + part.name] = stored_part(part, serial.mapped());
    }
  return tensors;
}

}  // namespace frugal::engine
