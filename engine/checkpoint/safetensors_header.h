#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/namespace.h"

/// The safetensors format: 8 bytes of header length (little endian), a JSON header of name →
/// {dtype, shape, data_offsets}, and the data. Offsets count from the data's first byte.
namespace frugal::engine::safetensors {

/// What an element is stored as: F32, F64, I32, BF16 (the upper half of a float32), F16 (IEEE).
enum class Stored : uint8_t { f32, f64, i32, bf16, f16 };
/// Name in the format: "BF16".
std::string_view name_of(Stored stored);
int64_t size_of(Stored stored);

/// A tensor of a file: what it is, and where in the data.
struct Entry {
  Stored stored = Stored::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  ///< bytes

  int64_t elements() const;
};
using Entries = std::map<std::string, Entry>;
using Metadata = std::map<std::string, std::string>;

struct Header {
  Entries entries;
  Metadata metadata;
  uint64_t data = 0;  ///< where in the file the data begins, bytes
};

/// Reads a file's header and nothing else. Throws InputError that names the file, and the tensor,
/// where the file ends too early, the header is absurdly long, no JSON object or has a name twice,
/// or a tensor has another dtype, a size that does not fit its shape, or data that lies outside the
/// file or overlaps another's. Bytes that belong to no tensor are allowed.
Header read_header(const std::string& path);

/// The bytes of a file before its data.
std::string header_bytes(const Entries& entries, const Metadata& metadata);

/// Throws InputError: "<path>: <why>; write the file again".
[[noreturn]] void refuse(const std::string& path, const std::string& why);

}  // namespace frugal::engine::safetensors
