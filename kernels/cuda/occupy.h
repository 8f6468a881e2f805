#pragma once
#include "kernels/cuda/launch.h"

namespace frugal::kernels::cuda {

/// Keeps a stream busy for so many seconds with one thread. The multiprocessors and the bandwidth
/// that a collective's kernels would take from those beside them are not taken.
void occupy(cudaStream_t stream, double seconds);

}  // namespace frugal::kernels::cuda
