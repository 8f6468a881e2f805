#include "engine/checkpoint/tensor_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/support/paths.h"

namespace frugal::engine {
namespace {

/// The file or index of a folder. Where both are there, the file is the whole model.
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

}  // namespace

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

}  // namespace frugal::engine
