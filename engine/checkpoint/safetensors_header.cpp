#include "engine/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "kernels/support/error.h"
#include "kernels/support/json_file.h"

namespace frugal::engine::safetensors {
namespace {

using nlohmann::json;

/// As the format's own library has it: no header of a real file comes near.
constexpr uint64_t longest_header = 100'000'000;

constexpr std::array all_stored = {Stored::f32, Stored::f64, Stored::i32, Stored::bf16,
                                   Stored::f16};

std::optional<Stored> stored_of(std::string_view name) {
  const auto found = std::find_if(all_stored.begin(), all_stored.end(),
                                  [&](Stored stored) { return name_of(stored) == name; });
  return found == all_stored.end() ? std::nullopt : std::optional(*found);
}

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
  const auto stored = stored_of(dtype);
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
  std::sort(places.begin(), places.end(),
            [](const auto* a, const auto* b) { return a->second.begin < b->second.begin; });
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

}  // namespace

std::string_view name_of(Stored stored) {
  switch (stored) {
    case Stored::f32:
      return "F32";
    case Stored::f64:
      return "F64";
    case Stored::i32:
      return "I32";
    case Stored::bf16:
      return "BF16";
    case Stored::f16:
      return "F16";
  }
  return "?";
}

int64_t size_of(Stored stored) {
  switch (stored) {
    case Stored::f64:
      return 8;
    case Stored::f32:
    case Stored::i32:
      return 4;
    case Stored::bf16:
    case Stored::f16:
      return 2;
  }
  return 0;
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

}  // namespace frugal::engine::safetensors
