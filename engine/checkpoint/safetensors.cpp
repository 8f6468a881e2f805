#include "engine/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"
#include "kernels/types.h"

namespace frugal::engine::safetensors {
namespace {

using nlohmann::json;

/// Limit of the format's own library; no header of a real file comes near.
constexpr uint64_t longest_header = 100'000'000;

/// Elements of a shape, none where they would need more bytes than there are.
std::optional<uint64_t> elements_within(const std::vector<int64_t>& shape, uint64_t bytes) {
  uint64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && elements > bytes / static_cast<uint64_t>(extent)))
      return std::nullopt;
    elements *= static_cast<uint64_t>(extent);
  }
  return elements;
}

Entry read_entry(const std::string& path, const std::string& name, const json& value,
                 uint64_t data_size) {
  const JsonObject object(value, path, name);
  Entry entry;
  const auto dtype = object.require<std::string>("dtype");
  entry.shape = object.require<std::vector<int64_t>>("shape");
  const auto offsets = object.require<std::vector<int64_t>>("data_offsets");
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < 0)
    object.fail("data_offsets", "must be where the data begins and where it ends");
  entry.begin = static_cast<uint64_t>(offsets[0]);
  entry.end = static_cast<uint64_t>(offsets[1]);
  const auto stored = from_name<Stored>(dtype);
  if (!stored)
    refuse(path, fmt::format("tensor {} has dtype {}; F32, F64, I32, BF16 and F16 are allowed",
                             name, dtype));
  entry.stored = *stored;
  if (entry.begin > entry.end || entry.end > data_size)
    refuse(path, fmt::format("tensor {} lies at bytes {} to {} of {}", name, entry.begin, entry.end,
                             data_size));
  const auto elements = elements_within(entry.shape, data_size);
  if (!elements)
    refuse(path, fmt::format("tensor {} has a shape that does not fit the file", name));
  const uint64_t needed = *elements * static_cast<uint64_t>(size_of(*stored));
  if (needed != entry.end - entry.begin)
    refuse(path, fmt::format("tensor {} has {} bytes, its shape needs {}", name,
                             entry.end - entry.begin, needed));
  return entry;
}

void check_overlaps(const std::string& path, const Entries& entries) {
  std::vector<const Entries::value_type*> places;
  for (const auto& entry : entries)
    if (entry.second.begin < entry.second.end) places.push_back(&entry);
  std::ranges::sort(places, {}, [](const auto* entry) { return entry->second.begin; });
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i]->second.begin < places[i - 1]->second.end)
      refuse(path,
             fmt::format("tensors {} and {} overlap", places[i - 1]->first, places[i]->first));
}

/// The header's JSON, and where the data begins. `size` is the file's.
std::string header_text(const std::string& path, uint64_t size, uint64_t& data) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(fmt::format("{} cannot be read; give a safetensors file", path));
  uint64_t length = 0;
  if (!in.read(reinterpret_cast<char*>(&length), sizeof(length)))
    refuse(path, "the file ends before its header");
  if (length > size - sizeof(length)) refuse(path, "the file ends within its header");
  if (length > longest_header)
    refuse(path,
           fmt::format("its header has {} bytes, and {} are allowed", length, longest_header));
  std::string text(length, ' ');
  if (!in.read(text.data(), static_cast<std::streamsize>(length)))
    refuse(path, "the file ends within its header");
  data = sizeof(length) + length;
  return text;
}

/// Elements that are converted at once.
constexpr size_t chunk = 1 << 16;

/// IEEE binary16: a sign, 5 bits of exponent, 10 of fraction.
struct Half {
  uint16_t bits;

  explicit operator double() const {
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    if (exponent < 31) return sign * std::ldexp(1024 + fraction, exponent - 25);
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
};

/// Calls use(T()), where a file has the elements as the bytes of T.
template <class Use>
auto with_type(Stored stored, const Use& use) {
  switch (stored) {
    case Stored::f64:
      return use(double{});
    case Stored::i32:
      return use(int32_t{});
    case Stored::bf16:
      return use(Bf16{});
    case Stored::f16:
      return use(Half{});
    case Stored::f32:
      break;
  }
  return use(float{});
}

void decode(Stored stored, const char* bytes, std::span<double> values) {
  with_type(stored, [&](auto element) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&element, bytes + i * sizeof element, sizeof element);
      values[i] = number_of(element);
    }
  });
}

void encode(Stored stored, std::span<const double> values, char* bytes) {
  with_type(stored, [&](auto element) {
    using Element = decltype(element);
    if constexpr (std::is_same_v<Element, Half>)
      throw std::logic_error("nothing is written as F16");
    else
      for (size_t i = 0; i < values.size(); ++i) {
        element = element_of<Element>(values[i]);
        std::memcpy(bytes + i * sizeof element, &element, sizeof element);
      }
  });
}

}  // namespace

int64_t size_of(Stored stored) {
  return with_type(stored, [](auto element) { return static_cast<int64_t>(sizeof element); });
}

int64_t Entry::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Header read_header(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error)
    throw InputError(
        fmt::format("{} cannot be read: {}; give a safetensors file", path, error.message()));
  Header header;
  const json all = parse_json(header_text(path, size, header.data), path);
  if (!all.is_object()) refuse(path, "its header is not a JSON object");
  for (const auto& [name, value] : all.items()) {
    if (name != "__metadata__") {
      header.entries.emplace(name, read_entry(path, name, value, size - header.data));
      continue;
    }
    if (!value.is_object()) refuse(path, "__metadata__ is not a JSON object");
    for (const auto& [key, text] : value.items())
      header.metadata[key] = text.is_string() ? text.get<std::string>() : text.dump();
  }
  check_overlaps(path, header.entries);
  return header;
}

std::string header_bytes(const Entries& entries, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const auto& [name, entry] : entries)
    header[name] = {{"dtype", name_of(entry.stored)},
                    {"shape", entry.shape},
                    {"data_offsets", {entry.begin, entry.end}}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

void refuse(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}; write the file again", path, why));
}

Reader::Reader(const std::string& path)
    : path_(path), header_(read_header(path)), in_(path, std::ios::binary) {
  if (!in_) throw InputError(fmt::format("{} cannot be read; give a safetensors file", path));
}

void Reader::read(const std::string& name, int64_t first, std::span<double> values) {
  const Entry& entry = header_.entries.at(name);
  if (first < 0 || first + static_cast<int64_t>(values.size()) > entry.elements())
    throw std::out_of_range(name);
  const auto size = static_cast<size_t>(size_of(entry.stored));
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(header_.data + entry.begin +
                                        static_cast<uint64_t>(first) * size));
  std::vector<char> bytes(std::min(chunk, values.size()) * size);
  while (!values.empty()) {
    const std::span<double> now = values.first(std::min(chunk, values.size()));
    if (!in_.read(bytes.data(), static_cast<std::streamsize>(now.size() * size)))
      refuse(path_, fmt::format("the file ended while tensor {} was read", name));
    decode(entry.stored, bytes.data(), now);
    values = values.subspan(now.size());
  }
}

Writer::Writer(std::string path, const std::vector<Tensor>& tensors, const Metadata& metadata)
    : path_(std::move(path)), part_(path_ + ".part") {
  if (std::filesystem::exists(path_))
    throw InputError(fmt::format("{} exists; choose another file or remove it", path_));
  uint64_t end = 0;
  for (const Tensor& tensor : tensors) {
    Entry entry{tensor.stored, tensor.shape, end, end};
    end += static_cast<uint64_t>(entry.elements() * size_of(tensor.stored));
    entry.end = end;
    if (!left_.insert(tensor.name).second) throw std::logic_error("tensor twice: " + tensor.name);
    entries_.emplace(tensor.name, std::move(entry));
  }
  const std::string header = header_bytes(entries_, metadata);
  data_ = header.size();
  out_.open(part_, std::ios::binary | std::ios::trunc);
  if (!(out_ << header)) no_place();
}

Writer::~Writer() {
  if (closed_) return;
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void Writer::no_place() const { throw CannotWrite(path_, errno); }

void Writer::write(const std::string& name, std::span<const double> values) {
  if (left_.erase(name) == 0) throw std::logic_error("no such tensor is to be written: " + name);
  const Entry& entry = entries_.at(name);
  if (static_cast<int64_t>(values.size()) != entry.elements())
    throw std::logic_error("another number of values: " + name);
  const auto size = static_cast<size_t>(size_of(entry.stored));
  out_.seekp(static_cast<std::streamoff>(data_ + entry.begin));
  std::vector<char> bytes(std::min(chunk, values.size()) * size);
  while (!values.empty()) {
    const std::span<const double> now = values.first(std::min(chunk, values.size()));
    encode(entry.stored, now, bytes.data());
    if (!out_.write(bytes.data(), static_cast<std::streamsize>(now.size() * size))) no_place();
    values = values.subspan(now.size());
  }
}

void Writer::close() {
  if (!left_.empty()) throw std::logic_error("tensor was not written: " + *left_.begin());
  if (std::filesystem::exists(path_))
    throw InputError(fmt::format("{} exists; choose another file or remove it", path_));
  if (!out_.flush()) no_place();
  out_.close();
  std::error_code error;
  std::filesystem::rename(part_, path_, error);
  if (error) throw CannotWrite(path_, error.value());
  closed_ = true;
}

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
