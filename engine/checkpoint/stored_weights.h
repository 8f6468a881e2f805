#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/serial_parameters.h"

/// Weights of a model in files, in the names of this program or of Hugging Face's library; one
/// parameter at a time is in memory, in float64.
namespace frugal::engine {

/// A tensor of a file, of some rows of a parameter: `block` rows at a time, the first ones from row
/// `first` of the parameter on and the next ones `stride` rows further.
struct StoredTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t block = 0, stride = 0, first = 0;
};

/// A parameter with its tensors in a file, which cover all its rows once.
struct StoredParameter {
  std::string name;            ///< Parameter::name
  std::vector<int64_t> shape;  ///< Parameter::serial_shape
  std::vector<StoredTensor> tensors;
};

/// Names of weights in files: those of Hugging Face's library, or this program's.
enum class Naming : uint8_t { engine, hugging_face };

/// Hugging Face's names for models that LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and
/// Gemma2ForCausalLM can be, whatever its sizes; the engine's for all else.
Naming naming_of(const ModelConfig& model);

/// Parameters in the order of serial_parameters(), with their tensors.
///
/// Where Hugging Face has three maps to queries, keys and values the engine has one, ordered by the
/// heads of keys and values: each with the G queries that share it, d rows per head. A gated MLP's
/// gate and up are one as well, the gate first. Rotated pairs are (i, i + d/2) in both.
std::vector<StoredParameter> stored_parameters(const ModelConfig& model);

/// Tensors of a model in one safetensors file or in several, read when they are asked for.
class TensorFiles {
 public:
  /// `path` is a safetensors file, an index (x.index.json: weight_map tells which of the files
  /// beside it has which tensor), or a folder with model.safetensors or
  /// model.safetensors.index.json. Throws InputError for a file that is not right
  /// (safetensors::read_header), and by name for a file of the index that is missing or not beside
  /// it, and for a tensor that is not in its file.
  explicit TensorFiles(const std::string& path);

  /// Path of the file or index, for messages.
  const std::string& path() const { return path_; }
  /// Names of all tensors, sorted.
  std::vector<std::string> names() const;
  /// Entry of a tensor; nullptr if there is none of this name.
  const safetensors::Entry* find(const std::string& name) const;
  /// Reads as safetensors::Reader::read() does.
  void read(const std::string& name, int64_t first, std::span<double> values);
  /// The safetensors files.
  std::vector<std::string> paths() const;

 private:
  void add_file();
  void add_index();

  std::string path_;
  std::map<std::string, std::unique_ptr<safetensors::Reader>> readers_;  ///< by file name
  std::map<std::string, safetensors::Reader*> tensors_;                  ///< which file has it
};

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

/// Cuts a file's tensor out of a parameter's values, or of their gradient.
HostTensor stored_part(const StoredTensor& part, const HostTensor& serial);

/// Tensors "weight/NAME" and "gradient/NAME" in the names of files; others stay as they are.
HostTensors in_stored_names(const ModelConfig& model, HostTensors tensors);

}  // namespace frugal::engine
