#include "engine/checkpoint/safetensors.h"

#include "engine/checkpoint/safetensors_stream.h"

namespace frugal::engine::safetensors {

void write(const std::string& path, const File& file) {
  std::vector<Writer::Tensor> tensors;
  for (const auto& [name, tensor] : file.tensors)
    tensors.push_back({name, tensor.shape, tensor.type == DType::i32 ? Stored::i32 : Stored::f32});
  Writer writer(path, tensors, file.metadata);
  for (const auto& [name, tensor] : file.tensors) writer.write(name, tensor.values);
  writer.close();
}

File read(const std::string& path) {
  Reader reader(path);
  File file{{}, reader.metadata()};
  for (const auto& [name, entry] : reader.entries()) {
    HostTensor tensor{entry.shape, std::vector<double>(static_cast<size_t>(entry.elements())),
                      entry.stored == Stored::i32 ? DType::i32 : DType::f32};
    reader.read(name, 0, tensor.values);
    file.tensors.emplace(name, std::move(tensor));
  }
  return file;
}

}  // namespace frugal::engine::safetensors
