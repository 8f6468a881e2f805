#include "engine/checkpoint/stored_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/model/table_names.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

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

HostTensor zeros(const std::vector<int64_t>& shape) {
  HostTensor tensor{shape, {}, DType::f32};
  tensor.values.resize(static_cast<size_t>(tensor.size()));
  return tensor;
}

}  // namespace

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
  // With weight stashing the last stage's table is one of its own, though the model's are tied.
  const StoredParameter& p = parameters_.at(tied_ && name == output_table ? token_table : name);
  HostTensor weight = zeros(p.shape);
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
  HostTensor tensor = zeros(part.shape);
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
