#include "kernels/cuda/device_kernels.h"

namespace frugal::kernels::cuda {
namespace {

__device__ uint64_t nanoseconds() {
  uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void idle(uint64_t duration) {
  const uint64_t start = nanoseconds();
  while (nanoseconds() - start < duration) __nanosleep(200);
}

using Word = float4;
/// Loads of a thread in flight at a time, so that few blocks reach the bandwidth of links.
constexpr int words_at_once = 4;

/// Reads and writes the block's part of some memory, and rests where it is ahead of its rate, in
/// words per nanosecond.
__global__ void stream_through(Word* words, int64_t part, uint64_t duration, double rate) {
  Word* const own = words + blockIdx.x * part;
  const int64_t stride = blockDim.x;
  const uint64_t start = nanoseconds();
  double moved = 0;
  for (int64_t i = threadIdx.x;;) {
    const uint64_t passed = nanoseconds() - start;
    if (passed >= duration) return;
    if (moved > static_cast<double>(passed) * rate) {
      __nanosleep(100);
      continue;
    }
    Word some[words_at_once];
    for (int k = 0; k < words_at_once; ++k) some[k] = own[i + k * stride];
    for (int k = 0; k < words_at_once; ++k) {
      some[k].x += 1;  // what is written as it was read need not be
      own[i + k * stride] = some[k];
    }
    moved += 2.0 * words_at_once * static_cast<double>(stride);
    i += words_at_once * stride;
    if (i + (words_at_once - 1) * stride >= part) i = threadIdx.x;
  }
}

__global__ void write(int64_t* words, int64_t seed, int64_t offset) {
  words[0] = seed;
  words[2] = offset;
}

}  // namespace

void occupy(const Launch& on, double seconds, int blocks, double bandwidth, const View& memory) {
  if (seconds <= 0) return;
  constexpr int threads = 512;
  const auto word = static_cast<int64_t>(sizeof(Word));
  const double rate = bandwidth / blocks / static_cast<double>(word) * 1e-9;
  launch_with_shared(on, stream_through, blocks, threads, on.shared_memory,
                     static_cast<Word*>(memory.data), memory.bytes() / word / blocks,
                     static_cast<uint64_t>(seconds * 1e9), rate);
}

void occupy(cudaStream_t stream, double seconds) {
  if (seconds <= 0) return;
  launch({.stream = stream}, idle, 1, 1, static_cast<uint64_t>(seconds * 1e9));
}

void write_seed(const Launch& on, int64_t* words, int64_t seed, int64_t offset) {
  launch(on, write, 1, 1, words, seed, offset);
}

}  // namespace frugal::kernels::cuda
