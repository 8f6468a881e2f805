#include "engine/checkpoint/safetensors_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <utility>

#include "kernels/support/error.h"
#include "kernels/types.h"

namespace frugal::engine::safetensors {
namespace {

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

template <class T>
double value_of(T stored) {
  if constexpr (std::is_same_v<T, Bf16>)
    return static_cast<float>(stored);
  else
    return static_cast<double>(stored);
}

template <class T>
void decode(const char* bytes, std::span<double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T stored;
    std::memcpy(&stored, bytes + i * sizeof(T), sizeof(T));
    values[i] = value_of(stored);
  }
}

template <class T>
void encode(std::span<const double> values, char* bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    T stored;
    if constexpr (std::is_same_v<T, Bf16>)
      stored = Bf16(static_cast<float>(values[i]));
    else
      stored = static_cast<T>(values[i]);
    std::memcpy(bytes + i * sizeof(T), &stored, sizeof(T));
  }
}

void decode(Stored stored, const char* bytes, std::span<double> values) {
  switch (stored) {
    case Stored::f32:
      return decode<float>(bytes, values);
    case Stored::f64:
      return decode<double>(bytes, values);
    case Stored::i32:
      return decode<int32_t>(bytes, values);
    case Stored::bf16:
      return decode<Bf16>(bytes, values);
    case Stored::f16:
      return decode<Half>(bytes, values);
  }
}

void encode(Stored stored, std::span<const double> values, char* bytes) {
  switch (stored) {
    case Stored::f32:
      return encode<float>(values, bytes);
    case Stored::f64:
      return encode<double>(values, bytes);
    case Stored::i32:
      return encode<int32_t>(values, bytes);
    case Stored::bf16:
      return encode<Bf16>(values, bytes);
    case Stored::f16:
      throw std::logic_error("nothing is written as F16");
  }
}

}  // namespace

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

}  // namespace frugal::engine::safetensors
