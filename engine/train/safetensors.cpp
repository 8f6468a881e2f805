#include "engine/train/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"

namespace frugal::safetensors {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}; write the file again", path, why));
}

template <class T>
void append(std::string& data, const std::vector<double>& values) {
  for (const double value : values) {
    const T stored = static_cast<T>(value);
    data.append(reinterpret_cast<const char*>(&stored), sizeof(T));
  }
}

template <class T>
std::vector<double> extract(std::string_view data) {
  std::vector<double> values(data.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T stored;
    std::memcpy(&stored, data.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(stored);
  }
  return values;
}

struct Range {
  uint64_t begin, end;
  std::string name;
};

HostTensor read_tensor(const std::string& path, const std::string& name, const json& entry,
                       std::string_view data, std::vector<Range>& ranges) {
  HostTensor tensor;
  try {
    tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
    ranges.push_back({entry.at("data_offsets").at(0).get<uint64_t>(),
                      entry.at("data_offsets").at(1).get<uint64_t>(), name});
  } catch (const json::exception&) {
    refuse(path, fmt::format("tensor {} needs a shape and data_offsets", name));
  }
  const auto [begin, end, _] = ranges.back();
  const auto dtype = entry.value("dtype", std::string("?"));
  const uint64_t size = dtype == "F64" ? 8 : dtype == "F32" || dtype == "I32" ? 4 : 0;
  if (size == 0)
    refuse(path, fmt::format("tensor {} has dtype {}; F32, F64 and I32 are allowed", name, dtype));
  if (begin > end || end > data.size())
    refuse(path,
           fmt::format("tensor {} lies at bytes {} to {} of {}", name, begin, end, data.size()));
  uint64_t elements = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || (extent > 0 && elements > data.size() / static_cast<uint64_t>(extent)))
      refuse(path, fmt::format("tensor {} has a shape that does not fit the file", name));
    elements *= static_cast<uint64_t>(extent);
  }
  if (elements * size != end - begin)
    refuse(path, fmt::format("tensor {} has {} bytes, its shape needs {}", name, end - begin,
                             elements * size));
  const std::string_view bytes = data.substr(begin, end - begin);
  tensor.type = dtype == "I32" ? DType::i32 : DType::f32;
  tensor.values = dtype == "I32"   ? extract<int32_t>(bytes)
                  : dtype == "F64" ? extract<double>(bytes)
                                   : extract<float>(bytes);
  return tensor;
}

void check_overlaps(const std::string& path, std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin < ranges[i - 1].end)
      refuse(path, fmt::format("tensors {} and {} overlap", ranges[i - 1].name, ranges[i].name));
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(fmt::format("{} cannot be read; give a safetensors file", path));
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

void write(const std::string& path, const File& file) {
  if (std::filesystem::exists(path))
    throw InputError(fmt::format("{} exists; choose another file or remove it", path));
  json header = json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const size_t begin = data.size();
    const bool integers = tensor.type == DType::i32;
    integers ? append<int32_t>(data, tensor.values) : append<float>(data, tensor.values);
    header[name] = {{"dtype", integers ? "I32" : "F32"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out << text << data;
  out.close();
  if (!out) throw InputError(fmt::format("{} cannot be written; choose another place", path));
}

File read(const std::string& path) {
  const std::string content = content_of(path);
  uint64_t length = 0;
  if (content.size() < sizeof(length)) refuse(path, "the file ends before its header");
  std::memcpy(&length, content.data(), sizeof(length));
  if (length > content.size() - sizeof(length)) refuse(path, "the file ends within its header");
  const std::string_view all = content;
  const json header = json::parse(all.substr(sizeof(length), length), nullptr, false);
  if (!header.is_object()) refuse(path, "its header is not a JSON object");
  const std::string_view data = all.substr(sizeof(length) + length);
  File file;
  std::vector<Range> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) refuse(path, "__metadata__ is not a JSON object");
      for (const auto& [key, value] : entry.items())
        file.metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
    } else {
      file.tensors[name] = read_tensor(path, name, entry, data, ranges);
    }
  }
  check_overlaps(path, std::move(ranges));
  return file;
}

}  // namespace frugal::safetensors
