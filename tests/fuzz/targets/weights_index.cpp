#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_weights.h"
#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

/// A file of two tensors, which an index may lead to.
std::string two_tensors() {
  using engine::safetensors::Stored;
  const engine::safetensors::Entries entries = {{"a", {Stored::f32, {2}, 0, 8}},
                                                {"b", {Stored::f32, {}, 8, 12}}};
  return engine::safetensors::header_bytes(entries, {}) + std::string(12, '\1');
}

/// An index of the files that have a model's weights.
void read_weights_index(const std::string& path) {
  scratch_file("index/one.safetensors", two_tensors());
  engine::TensorFiles files(path);
  for (const std::string& name : files.names()) {
    std::vector<double> values(static_cast<size_t>(files.find(name)->elements()));
    files.read(name, 0, values);
  }
}

const bool weights_index_added =
    add_target({"weights_index", "index/model.safetensors.index.json", read_weights_index});

}  // namespace
}  // namespace frugal::testing
