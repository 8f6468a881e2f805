#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors_stream.h"

namespace frugal::engine {

/// A model's tensors in one safetensors file or in several, read when they are asked for.
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
  /// In order of their names.
  std::vector<std::string> names() const;
  /// What a tensor is; nullptr where there is none of this name.
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

}  // namespace frugal::engine
