#pragma once
#include <cstdint>

#include "kernels/cuda/ops/launch.h"

namespace frugal::kernels::cuda {

/// words[0] := seed, words[2] := offset, in the order of the stream.
void write_seed(const Launch& on, int64_t* words, int64_t seed, int64_t offset);

}  // namespace frugal::kernels::cuda
