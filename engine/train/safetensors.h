#pragma once
#include <map>
#include <string>

#include "engine/train/host_tensor.h"

/// The safetensors format: 8 bytes of header length (little endian), a JSON header of name →
/// {dtype, shape, data_offsets}, and the data. F32, F64 and I32 tensors are supported.
namespace frugal::safetensors {

struct File {
  HostTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// Writes f32 tensors as F32, i32 as I32. Throws InputError when the file cannot be written or
/// exists already.
void write(const std::string& path, const File& file);

/// Throws InputError naming file and tensor when the file is truncated, its header is malformed, or
/// a tensor has another dtype, a size that does not fit its shape, or data that lies outside the
/// file or overlaps another's. Nothing is read past the end.
File read(const std::string& path);

}  // namespace frugal::safetensors
