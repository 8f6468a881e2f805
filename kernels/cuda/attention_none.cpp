#include "kernels/cuda/attention.h"

namespace frugal::FRUGAL_CUDA {

FusedAttentions::FusedAttentions(CudaMemory&) {}

}  // namespace frugal::FRUGAL_CUDA
