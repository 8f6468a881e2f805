#include "engine/checkpoint/training_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

safetensors::Stored stored_as(DType type) {
  switch (type) {
    case DType::f32:
      return safetensors::Stored::f32;
    case DType::bf16:
      return safetensors::Stored::bf16;
    case DType::f64:
      return safetensors::Stored::f64;
    case DType::i32:
    case DType::u8:
      break;
  }
  throw std::logic_error("no state has this type");
}

/// Place of a tensor's part for the file's metadata: offset, run, stride, and the serial shape.
std::string place_text(const StateTensor& tensor) {
  return fmt::format("{} {} {} {}", tensor.index.offset,
                     std::min(tensor.index.run, tensor.serial.size()), tensor.index.stride,
                     fmt::join(extents_of(tensor.serial), " "));
}

/// Key of the metadata for the first element of a part, if that is not 0.
std::string first_key(const std::string& name) { return name + " first"; }

/// First element of a part; none if it is no whole number from 0.
std::optional<int64_t> first_from(const safetensors::Metadata& metadata, const std::string& name) {
  const auto found = metadata.find(first_key(name));
  if (found == metadata.end()) return 0;
  int64_t first = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [rest, error] = std::from_chars(found->second.data(), end, first);
  return error == std::errc() && rest == end && first >= 0 ? std::optional(first) : std::nullopt;
}

/// Places of the elements of a part, up to that one; none if the text does not say them.
std::optional<GlobalIndex> place_from(const std::string& text, int64_t elements) {
  std::istringstream words(text);
  GlobalIndex index;
  words >> index.offset >> index.run >> index.stride;
  if (!words || index.offset < 0 || index.run < 1 || index.stride < 0) return std::nullopt;
  int64_t last = 0;  // no element stands behind it
  const bool too_far = __builtin_mul_overflow(elements / index.run, index.stride, &last) ||
                       __builtin_add_overflow(last, std::min(index.run, elements), &last) ||
                       __builtin_add_overflow(last, index.offset, &last);
  return too_far ? std::nullopt : std::optional(index);
}

std::vector<int64_t> shape_from(const std::string& text) {
  std::istringstream words(text);
  std::vector<int64_t> shape;
  for (int64_t skipped = 0, number = 0; words >> number; ++skipped)
    if (skipped >= 3) shape.push_back(number);
  return shape;
}

}  // namespace

void write_state(const std::string& path, Device& device, const std::vector<StateTensor>& tensors) {
  std::vector<safetensors::Writer::Tensor> all;
  safetensors::Metadata places;
  for (const StateTensor& tensor : tensors) {
    all.push_back({tensor.name, extents_of(tensor.local.shape), stored_as(tensor.local.type)});
    places[tensor.name] = place_text(tensor);
    if (tensor.first > 0) places[first_key(tensor.name)] = std::to_string(tensor.first);
  }
  safetensors::Writer writer(path, all, places);
  for (const StateTensor& tensor : tensors) {
    HostTensor values = zero_host_tensor(extents_of(tensor.local.shape));
    gather_into(values, device, tensor.local, {});
    if (!std::ranges::all_of(values.values, [](double value) { return std::isfinite(value); }))
      throw WrongNumbers(
          fmt::format("{} is not finite, so no checkpoint is written of it; lower the learning "
                      "rate, and resume "
                      "from the checkpoint before",
                      tensor.name));
    writer.write(tensor.name, values.values);
  }
  writer.close();
}

StoredState::StoredState(const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    safetensors::Reader& file = *files_.emplace_back(std::make_unique<safetensors::Reader>(path));
    for (const auto& [name, entry] : file.entries()) {
      const auto text = file.metadata().find(name);
      const auto first = first_from(file.metadata(), name);
      int64_t end = 0;
      const bool known = text != file.metadata().end() && first &&
                         !__builtin_add_overflow(*first, entry.elements(), &end);
      const auto place = known ? place_from(text->second, end) : std::nullopt;
      if (!place) safetensors::refuse(path, fmt::format("tensor {} has no place", name));
      parts_[name].push_back({&file, *place, *first});
    }
  }
}

/// Joins all parts; several ranks may have written the same one.
HostTensor StoredState::serial(const StateTensor& like) const {
  const auto found = parts_.find(like.name);
  if (found == parts_.end())
    throw InputError(fmt::format("tensor {} is in no file of the checkpoint", like.name));
  HostTensor all = zero_host_tensor(extents_of(like.serial));
  std::ranges::fill(all.values, std::numeric_limits<double>::quiet_NaN());
  std::vector<bool> written(all.values.size());
  for (const Part& part : found->second) {
    const safetensors::Reader& file = *part.file;
    if (shape_from(file.metadata().at(like.name)) != extents_of(like.serial))
      safetensors::refuse(file.path(),
                          fmt::format("tensor {} is a part of another shape", like.name));
    std::vector<double> values(static_cast<size_t>(file.entries().at(like.name).elements()));
    part.file->read(like.name, 0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<size_t>(part.index.at(part.first + static_cast<int64_t>(i)));
      if (at >= written.size())
        safetensors::refuse(file.path(), fmt::format("tensor {} lies outside", like.name));
      all.values[at] = values[i];
      written[at] = true;
    }
  }
  if (!std::ranges::all_of(written, std::identity()))
    throw InputError(
        fmt::format("tensor {} is not whole in the files of the checkpoint", like.name));
  return all;
}

void StoredState::read(const StateTensor& into, Device& device) const {
  const HostTensor all = serial(into);
  HostTensor part = zero_host_tensor(extents_of(into.local.shape));
  for (size_t i = 0; i < part.values.size(); ++i)
    part.values[i] =
        all.values[static_cast<size_t>(into.index.at(into.first + static_cast<int64_t>(i)))];
  scatter_from(part, device, into.local, {});
}

}  // namespace frugal::engine
