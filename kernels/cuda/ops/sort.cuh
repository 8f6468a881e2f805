#pragma once
#include "kernels/cuda/ops/block.cuh"

/// A stable sort of ids by digits of up to eight bits, the last digit first. In each pass there is
/// a block for each value of the digit. It reads all keys twice: to count those that come before
/// its own, and to put its own in their place, in their order. So blocks tell each other nothing,
/// and no pass needs atomic additions: 256 blocks read 256 KiB of 64 Ki keys from the second-level
/// cache twice. For far more keys a sort that reads them fewer times would be better.
namespace frugal::cuda {

/// Keys in order, and which position each of them has in the input.
struct Sorted {
  const int32_t* keys;
  const int32_t* positions;
  int64_t size;
};

inline constexpr int sort_threads = 512;

/// What a pass reads: in the first one ids, whose keys are id − first, or `vocabulary` where the id
/// is of another shard; then what the pass before has written.
struct SortInput {
  const int32_t *ids, *keys, *positions;
  int64_t first, vocabulary;

  __device__ int32_t key(int64_t i) const {
    if (ids == nullptr) return keys[i];
    const int64_t id = ids[i] - first;
    return static_cast<int32_t>(id >= 0 && id < vocabulary ? id : vocabulary);
  }
  __device__ int32_t position(int64_t i) const {
    return ids == nullptr ? positions[i] : static_cast<int32_t>(i);
  }
};

/// f(i, key, valid) in every lane for each i of [begin, end) in turn, 32 at a time.
template <class F>
__device__ inline void each_key(const SortInput& from, int64_t begin, int64_t end, const F& f) {
  constexpr int at_once = 8;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int64_t i = begin + lane; i - lane < end; i += at_once * warp) {
    int32_t keys[at_once]{};
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (i + u * warp < end) keys[u] = from.key(i + u * warp);
#pragma unroll
    for (int u = 0; u < at_once; ++u) f(i + u * warp, keys[u], i + u * warp < end);
  }
}

/// Block d places the keys whose digit, the bits `mask` above `shift`, is d.
static __global__ void __launch_bounds__(sort_threads)
    sort_digit(SortInput from, int32_t* keys, int32_t* positions, int64_t size, int shift,
               int mask) {
  constexpr int warps = sort_threads / warp;
  __shared__ int of_warp[warps];
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int index = static_cast<int>(threadIdx.x) / warp;
  const int mine = static_cast<int>(blockIdx.x);
  const int64_t part = (size + warps - 1) / warps, begin = index * part;  // of a warp
  const int64_t end = begin + part < size ? begin + part : size;
  int below = 0, equal = 0;
  each_key(from, begin, end, [&](int64_t, int32_t key, bool valid) {
    const int digit = key >> shift & mask;
    below += valid && digit < mine ? 1 : 0;
    equal += valid && digit == mine ? 1 : 0;
  });
  equal = reduce_warp(equal, Plus{});
  if (lane == 0) of_warp[index] = equal;
  int64_t to = sum_block(below);  // has barriers: of_warp is written
  for (int w = 0; w < index; ++w) to += of_warp[w];
  each_key(from, begin, end, [&](int64_t i, int32_t key, bool valid) {
    const bool chosen = valid && (key >> shift & mask) == mine;
    const unsigned votes = __ballot_sync(0xffffffffU, chosen);
    if (chosen) {
      const int64_t at = to + __popc(votes & ((1U << lane) - 1));
      keys[at] = key;
      positions[at] = from.position(i);
    }
    to += __popc(votes);
  });
}

/// Ids − first in order, those outside [0, vocabulary) as `vocabulary` at the end. Takes scratch.
inline Sorted sort_ids(const Launch& on, const int32_t* ids, int64_t size, int64_t first,
                       int64_t vocabulary) {
  auto* const memory = on.scratch->take<int32_t>(static_cast<size_t>(4 * size));
  int bits = 1;
  while (vocabulary >> bits != 0) ++bits;
  const int passes = (bits + 7) / 8, digit = (bits + passes - 1) / passes;
  SortInput from{ids, nullptr, nullptr, first, vocabulary};
  for (int pass = 0; pass < passes; ++pass) {
    int32_t* const keys = memory + pass % 2 * 2 * size;
    int32_t* const positions = keys + size;
    launch(on, sort_digit, size == 0 ? 0 : int64_t{1} << digit, sort_threads, from, keys, positions,
           size, pass * digit, (1 << digit) - 1);
    from = {nullptr, keys, positions, first, vocabulary};
  }
  return {from.keys, from.positions, size};
}

}  // namespace frugal::cuda
