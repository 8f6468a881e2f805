#pragma once
#include "kernels/cuda/ops/launch.h"
#include "kernels/view.h"

/// Kernels of the device's own, which are no operation's.
namespace frugal::kernels::cuda {

/// Keeps a stream busy for so many seconds with one thread. The multiprocessors and the bandwidth
/// that a collective's kernels would take from those beside them are not taken.
void occupy(cudaStream_t stream, double seconds);

/// Keeps a stream busy and takes what a collective does at most: `blocks` that have all shared
/// memory of a multiprocessor each, so that no block of a product is beside one, and together read
/// and write `bandwidth` bytes of `memory` in a second. Its contents mean nothing: several streams
/// may change them at a time.
void occupy(const Launch& on, double seconds, int blocks, double bandwidth, const View& memory);

/// words[0] := seed, words[2] := offset, in the order of the stream.
void write_seed(const Launch& on, int64_t* words, int64_t seed, int64_t offset);

}  // namespace frugal::kernels::cuda
