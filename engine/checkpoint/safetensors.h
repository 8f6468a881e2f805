#pragma once
#include "engine/checkpoint/host_tensor.h"
#include "engine/checkpoint/safetensors_header.h"

/// Small files, whole. What does not fit memory: engine/checkpoint/safetensors_stream.h.
namespace frugal::engine::safetensors {

struct File {
  HostTensors tensors;
  Metadata metadata;
};

/// Writes f32 tensors as F32, i32 as I32. Throws InputError when the file cannot be written or
/// exists already.
void write(const std::string& path, const File& file);

/// Throws InputError as read_header() does. Nothing is read past the end.
File read(const std::string& path);

}  // namespace frugal::engine::safetensors
