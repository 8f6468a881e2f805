#pragma once
#include "kernels/cuda/ops/block.cuh"

/// A stable sort of ids by digits of up to eight bits, the last digit first. In each pass every
/// block counts the digits of its part of the keys, and then, from all blocks' counts, puts the
/// keys of its part in their places, in their order: two kernels, which read each key three times.
/// What is counted belongs to one warp, whose lanes agree on who counts: no pass needs atomic
/// additions.
namespace frugal::kernels::cuda {

/// Keys in order, and which position each of them has in the input.
struct Sorted {
  const int32_t* keys;
  const int32_t* positions;
  int64_t size;
};

inline constexpr int sort_threads = 256;
inline constexpr int digits = sort_threads;  // values that one may have: a thread for each
inline constexpr int sort_warps = sort_threads / warp;

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

/// A digit of the keys: the bits `mask` above `shift`.
struct Digit {
  int shift, mask;
  __device__ int of(int32_t key) const { return key >> shift & mask; }
};

/// The lanes, of those that are `valid`, whose digit is this lane's.
__device__ inline unsigned lanes_alike(int digit, bool valid) {
  constexpr unsigned every_lane = 0xffffffffU;
  unsigned alike = __ballot_sync(every_lane, valid);
#pragma unroll
  for (int bit = 1; bit < digits; bit *= 2) {
    const unsigned votes = __ballot_sync(every_lane, (digit & bit) != 0);
    alike &= (digit & bit) != 0 ? votes : ~votes;
  }
  return alike;
}

/// The part of the keys that a warp has.
struct SortPart {
  int64_t begin, end;

  __device__ explicit SortPart(int64_t size) {
    const int64_t parts = int64_t{gridDim.x} * sort_warps, part = (size + parts - 1) / parts;
    begin = grid_thread() / warp * part;
    end = begin + part < size ? begin + part : size;
  }
};

/// counts[d] := keys of this warp's part with digit d.
__device__ inline void count_part(const SortInput& from, const SortPart& part, Digit digit,
                                  int (&counts)[digits]) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int d = lane; d < digits; d += warp) counts[d] = 0;
  __syncwarp();
  each_key(from, part.begin, part.end, [&](int64_t, int32_t key, bool valid) {
    const unsigned alike = lanes_alike(digit.of(key), valid);
    const bool first = valid && (alike & ((1U << lane) - 1)) == 0;
    if (first) counts[digit.of(key)] += __popc(alike);
    __syncwarp();
  });
}

/// of_blocks [blocks, digits] := how many keys of its part have which digit.
static __global__ void __launch_bounds__(sort_threads)
    count_digits(SortInput from, int* of_blocks, int64_t size, Digit digit) {
  FRUGAL_SHARED(int, of_warps, [sort_warps][digits]);
  count_part(from, SortPart(size), digit, of_warps[threadIdx.x / warp]);
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < sort_warps; ++w) sum += of_warps[w][threadIdx.x];
  of_blocks[int64_t{blockIdx.x} * digits + threadIdx.x] = sum;
}

/// The sum of x of all threads before this one.
__device__ inline int sum_before(int x) {
  FRUGAL_SHARED(int, of_warp, [sort_warps]);
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int index = static_cast<int>(threadIdx.x) / warp;
  int sum = x;
#pragma unroll
  for (int distance = 1; distance < warp; distance *= 2) {
    const int below = __shfl_up_sync(0xffffffffU, sum, distance);
    if (lane >= distance) sum += below;
  }
  if (lane == warp - 1) of_warp[index] = sum;
  __syncthreads();
  sum -= x;
  for (int w = 0; w < index; ++w) sum += of_warp[w];
  return sum;
}

/// Puts the keys of its part where they belong, from count_digits().
static __global__ void __launch_bounds__(sort_threads)
    place_keys(SortInput from, const int* of_blocks, int32_t* keys, int32_t* positions,
               int64_t size, Digit digit) {
  FRUGAL_SHARED(int, next, [sort_warps][digits]);  // first how many, then the place of the next one
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int index = static_cast<int>(threadIdx.x) / warp;
  const SortPart part(size);
  count_part(from, part, digit, next[index]);
  int all = 0, before = 0;
#pragma unroll 8
  for (unsigned b = 0; b < gridDim.x; ++b) {
    const int count = of_blocks[int64_t{b} * digits + threadIdx.x];
    all += count;
    before += b < blockIdx.x ? count : 0;
  }
  int to = sum_before(all) + before;  // has a barrier: next is written
  for (int w = 0; w < sort_warps; ++w) {
    const int count = next[w][threadIdx.x];
    next[w][threadIdx.x] = to;
    to += count;
  }
  __syncthreads();
  each_key(from, part.begin, part.end, [&](int64_t i, int32_t key, bool valid) {
    const unsigned alike = lanes_alike(digit.of(key), valid);
    const int below = __popc(alike & ((1U << lane) - 1));
    const int at = next[index][digit.of(key)] + below;
    __syncwarp();
    if (valid && below == 0) next[index][digit.of(key)] += __popc(alike);
    __syncwarp();
    if (valid) {
      keys[at] = key;
      positions[at] = from.position(i);
    }
  });
}

/// Ids − first in order, those outside [0, vocabulary) as `vocabulary` at the end. Takes scratch.
inline Sorted sort_ids(const Launch& on, const int32_t* ids, int64_t size, int64_t first,
                       int64_t vocabulary) {
  constexpr int64_t of_block = sort_threads * 4;  // at least, to be worth its counts
  const int64_t blocks = blocks_for(on, (size + of_block - 1) / of_block, 1);
  auto* const memory = on.scratch->take<int32_t>(static_cast<size_t>(4 * size + blocks * digits));
  int32_t* const of_blocks = memory + 4 * size;
  int bits = 1;
  while (vocabulary >> bits != 0) ++bits;
  const int passes = (bits + 7) / 8, width = (bits + passes - 1) / passes;
  SortInput from{ids, nullptr, nullptr, first, vocabulary};
  for (int pass = 0; pass < passes; ++pass) {
    int32_t* const keys = memory + pass % 2 * 2 * size;
    int32_t* const positions = keys + size;
    const Digit digit{pass * width, (1 << width) - 1};
    launch(on, count_digits, blocks, sort_threads, from, of_blocks, size, digit);
    launch(on, place_keys, blocks, sort_threads, from, of_blocks, keys, positions, size, digit);
    from = {nullptr, keys, positions, first, vocabulary};
  }
  return {from.keys, from.positions, size};
}

}  // namespace frugal::kernels::cuda
