#include "engine/checkpoint/safetensors.h"

#include <cmath>
#include <filesystem>

#include "tests/fuzz/target.h"

namespace frugal::testing {
namespace {

using engine::safetensors::Reader;
using engine::safetensors::Stored;
using engine::safetensors::Writer;

std::vector<double> values_of(Reader& reader, const std::string& name) {
  std::vector<double> values(static_cast<size_t>(reader.entries().at(name).elements()));
  reader.read(name, 0, values);
  return values;
}

bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return x == y ? std::signbit(x) == std::signbit(y) : std::isnan(x) && std::isnan(y);
  });
}

/// What was read, in another file; a float32 has all values of a float16.
std::string write_again(Reader& reader) {
  std::vector<Writer::Tensor> tensors;
  for (const auto& [name, entry] : reader.entries())
    tensors.push_back(
        {name, entry.shape, entry.stored == Stored::f16 ? Stored::f32 : entry.stored});
  const std::string path = scratch_file("again.safetensors", "");
  std::filesystem::remove(path);
  Writer writer(path, tensors, reader.metadata());
  for (const auto& [name, entry] : reader.entries()) writer.write(name, values_of(reader, name));
  writer.close();
  return path;
}

void read_safetensors(const std::string& path) {
  Reader reader(path);
  Reader again(write_again(reader));
  require(again.metadata() == reader.metadata(), "the metadata are other ones");
  require(again.entries().size() == reader.entries().size(), "there are more tensors or fewer");
  for (const auto& [name, entry] : reader.entries()) {
    require(again.entries().at(name).shape == entry.shape, "a shape is another one");
    require(same_values(values_of(reader, name), values_of(again, name)), "values are other ones");
  }
}

const bool safetensors_added = add_target({"safetensors", "model.safetensors", read_safetensors});

}  // namespace
}  // namespace frugal::testing
