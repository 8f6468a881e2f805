#pragma once
#include "kernels/cuda/gpus.h"
#include "kernels/cuda/ops/launch.h"

namespace frugal::kernels::cuda {

/// Keeps a stream busy for so many seconds with one thread. The multiprocessors and the bandwidth
/// that a collective's kernels would take from those beside them are not taken.
void occupy(cudaStream_t stream, double seconds);

/// Keeps a stream busy and takes what a collective does at most: blocks that have all shared memory
/// of a multiprocessor, so that no block of a product is beside one, and read and write `memory` at
/// the load's bandwidth. Its contents mean nothing: several streams may change them at a time.
void occupy(const Launch& on, double seconds, const CollectiveLoad& load, const View& memory);

}  // namespace frugal::kernels::cuda
