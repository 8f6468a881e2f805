#pragma once
#include <memory>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.h"

namespace frugal::FRUGAL_CUDA {

class FusedAttentions {
 public:
  explicit FusedAttentions(CudaMemory& memory);
};

}  // namespace frugal::FRUGAL_CUDA
