#pragma once
#include <functional>
#include <optional>

#include "engine/checkpoint/host_tensor.h"
#include "engine/checkpoint/stored_names.h"
#include "engine/checkpoint/tensor_files.h"

/// Weights of a model in files, in the names that stored_names.h gives them; one parameter at a
/// time is in memory, in float64.
namespace frugal::engine {

/// A model's weights in a file, found to be all there.
class StoredWeights {
 public:
  /// Throws InputError that names file and tensor where one is missing, has another shape than the
  /// model or no floating-point numbers, and where there is one that the model has no place for.
  /// Two are let be: frequencies of rotary positions, which follow from the configuration, and an
  /// output layer of a model whose token table it is, where it has the same values.
  StoredWeights(const std::string& path, const ModelConfig& model);

  /// A parameter by its name in the engine, in its serial shape. Throws std::out_of_range for one
  /// that the model has not, InputError as TensorFiles::read().
  HostTensor weight(const std::string& name);
  const TensorFiles& files() const { return files_; }

 private:
  void check(const StoredTensor& tensor) const;
  void check_unknown(const std::string& name);
  bool equal(const std::string& a, const std::string& b);

  TensorFiles files_;
  std::string model_;
  bool tied_;
  std::map<std::string, StoredParameter> parameters_;
};

/// A file that a model's weights are written to, in any order.
class StoredWeightsWriter {
 public:
  /// `type` is of the model's weights: bf16 is stored as such, all else as F32. Throws as
  /// safetensors::Writer does.
  StoredWeightsWriter(const std::string& path, const ModelConfig& model, DType type,
                      safetensors::Metadata metadata);
  void write(const std::string& name, const HostTensor& weight);
  void close() { writer_->close(); }

 private:
  std::map<std::string, StoredParameter> parameters_;
  std::optional<safetensors::Writer> writer_;
};

/// What a file has of a parameter's values, or of their gradient.
HostTensor stored_part(const StoredTensor& part, const HostTensor& serial);

/// Tensors "weight/NAME" and "gradient/NAME" in the names of files; others stay as they are.
HostTensors in_stored_names(const ModelConfig& model, HostTensors tensors);

}  // namespace frugal::engine
