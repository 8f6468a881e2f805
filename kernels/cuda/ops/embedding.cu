#include <algorithm>

#include "kernels/cuda/ops/block.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/tiles.cuh"

// The gradient is one sum for each id that occurs, over its positions in their order, so ids are
// sorted first, stably. Then a warp has some positions of this order and 256 columns. It
// knows all their ids before it asks for the first row, so that the rows of several positions, and
// of the table, are on their way together, whether they have the same id or not. An id whose first
// position is another warp's is left to that one, which goes on beyond its own positions: dy is
// read once, and the rows of the table that occur are read and written once. What is slow is one id
// that occurs tens of thousands of times.
namespace frugal::kernels::cuda {

// A stable sort of ids by digits of up to eight bits, the last digit first. In each pass every
// block counts the digits of its part of the keys, and then, from all blocks' counts, puts the
// keys of its part in their places, in their order: two kernels, which read each key three times.
// What is counted belongs to one warp, whose lanes agree on who counts: no pass needs atomic
// additions.

/// Keys in order, and which position each of them has in the input.
struct Sorted {
  const int32_t* keys;
  const int32_t* positions;
  int64_t size;
};

inline constexpr int sort_threads = 256;
inline constexpr int digits = sort_threads;  // values that one may have: a thread for each
inline constexpr int sort_warps = sort_threads / warp;

/// Input of a pass: in the first one ids, whose keys are id − first, or `vocabulary` where the id
/// is of another shard; then the output of the pass before.
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
namespace {

template <bool wide, bool scaled, class T>
__global__ void __launch_bounds__(tile_threads)
    look_up(Tiles tiles, const int32_t* ids, const T* table, T* y, int64_t first,
            int64_t vocabulary, Accumulator<T> scale) {
  const Tile tile(tiles);
  each_row<4>(
      tiles, tile,
      [&](int64_t row) {
        const int64_t id = ids[row] - first;
        Packed<T> held{};
        if (id >= 0 && id < vocabulary)
          held = fetch<wide>(table + id * tiles.cols + tile.col, tile.count);
        return held;
      },
      [&](int64_t row, const Packed<T>& held) {
        T* const to = y + row * tiles.cols + tile.col;
        if constexpr (!scaled) return put<wide>(to, tile.count, held);
        Accumulator<T> v[pack];
        held.get(v);
#pragma unroll
        for (auto& e : v) e *= scale;
        store<wide>(to, tile.count, v);
      });
}

constexpr unsigned every_lane = 0xffffffffU;
constexpr int most_positions = warp - 2;  // of a warp, whose lanes know one more on either side

/// Columns of the gradient: to row k of the table, `count` from `to` + k · cols on, rows of dy are
/// added times `scale`.
template <class T, class G>
struct Columns {
  const T* dy;
  G* to;
  int64_t cols, count;
  Accumulator<T> scale;
};

/// The sum for one id at a time.
template <bool wide, class T, class G>
class IdSum {
 public:
  __device__ explicit IdSum(const Columns<T, G>& columns) : of_(columns) {}

  __device__ void begin(int32_t id, const Packed<G>& row_of_table) {
    id_ = id;
    row_of_table.get(sum_);
  }
  __device__ void add(const Packed<T>& dy) {
    Accumulator<T> v[pack];
    dy.get(v);
#pragma unroll
    for (int e = 0; e < pack; ++e) sum_[e] += v[e] * of_.scale;
  }
  __device__ void end() {
    if (id_ >= 0 && of_.count > 0) store<wide>(of_.to + id_ * of_.cols, of_.count, sum_);
  }
  __device__ int32_t id() const { return id_; }

 private:
  const Columns<T, G>& of_;
  Accumulator<T> sum_[pack]{};
  int32_t id_ = -1;
};

/// Adds the rows of dy that the positions from `at` on with the sum's id stand for.
template <bool wide, class T, class G>
__device__ void add_rows(const Sorted& ids, int64_t at, const Columns<T, G>& columns,
                         IdSum<wide, T, G>& sum) {
  constexpr int at_once = 4;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  for (int same = warp; same == warp; at += warp) {
    const bool mine = at + lane < ids.size && ids.keys[at + lane] == sum.id();
    const int32_t row = mine ? ids.positions[at + lane] : 0;
    const unsigned others = ~__ballot_sync(every_lane, mine);
    same = others == 0 ? warp : __ffs(static_cast<int>(others)) - 1;
    for (int first = 0; first < same; first += at_once) {
      Packed<T> held[at_once]{};
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int64_t from = __shfl_sync(every_lane, row, (first + u) % warp);
        if (first + u < same && columns.count > 0)
          held[u] = fetch<wide>(columns.dy + from * columns.cols, columns.count);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u)
        if (first + u < same) sum.add(held[u]);
    }
  }
}

/// Row of a position, on its way.
template <class T, class G>
struct Fetched {
  Packed<T> dy;
  Packed<G> row_of_table;
};

/// The sums of the ids whose first positions are [at, end). Ids from `vocabulary` on, the last
/// ones, are of other shards.
template <bool wide, class T, class G>
__device__ void add_positions(const Sorted& ids, int64_t at, int64_t end, int32_t vocabulary,
                              const Columns<T, G>& columns) {
  constexpr int at_once = sizeof(T) == 2 ? 4 : 2;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const int64_t own = at - 1 + lane;  // lane 0 has the position before
  const bool exists = own >= 0 && own < ids.size && own <= end;
  const int32_t id = exists ? ids.keys[own] : -1, row = exists ? ids.positions[own] : 0;
  const int32_t before = __shfl_up_sync(every_lane, id, 1);
  const bool counts = lane > 0 && own < end && id < vocabulary;
  const unsigned firsts = __ballot_sync(every_lane, counts && id != before);
  const int last = __popc(__ballot_sync(every_lane, counts));
  if (firsts == 0) return;
  IdSum<wide, T, G> sum(columns);
  for (int i = __ffs(static_cast<int>(firsts)) - 1; i <= last; i += at_once) {
    Fetched<T, G> held[at_once]{};
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t from = __shfl_sync(every_lane, row, (i + u) % warp);
      const int64_t of_id = __shfl_sync(every_lane, id, (i + u) % warp);
      if (i + u > last || columns.count <= 0) continue;
      held[u].dy = fetch<wide>(columns.dy + from * columns.cols, columns.count);
      if ((firsts >> (i + u) & 1U) != 0)
        held[u].row_of_table = fetch<wide>(columns.to + of_id * columns.cols, columns.count);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int32_t of_id = __shfl_sync(every_lane, id, (i + u) % warp);
      if (i + u > last) continue;
      if ((firsts >> (i + u) & 1U) != 0) {
        sum.end();
        sum.begin(of_id, held[u].row_of_table);
      }
      sum.add(held[u].dy);
    }
  }
  const int32_t next = __shfl_sync(every_lane, id, last + 1);
  if (next == sum.id()) add_rows(ids, end, columns, sum);
  sum.end();
}

/// A warp for `positions` of them and 256 columns at a time.
template <bool wide, class T, class G>
__global__ void __launch_bounds__(tile_threads)
    add_sorted(Sorted ids, int positions, const T* dy, G* dtable, int64_t cols, int32_t vocabulary,
               Accumulator<T> scale) {
  constexpr int warps = tile_threads / warp, at_a_time = warp * pack;
  const int64_t across = (cols + at_a_time - 1) / at_a_time;
  const int64_t all = (ids.size + positions - 1) / positions * across;
  const int64_t own = threadIdx.x % warp * pack;
  for (int64_t w = int64_t{blockIdx.x} * warps + threadIdx.x / warp; w < all;
       w += int64_t{gridDim.x} * warps) {
    const int64_t part = w / across, col = (w - part * across) * at_a_time + own;
    const int64_t at = part * positions;
    const int64_t end = at + positions < ids.size ? at + positions : ids.size;
    const Columns<T, G> columns{dy + col, dtable + col, cols, cols - col < pack ? cols - col : pack,
                                scale};
    add_positions<wide>(ids, at, end, vocabulary, columns);
  }
}

/// Positions of a warp: so many that every multiprocessor has work for all its warps where that is
/// possible.
int positions_of_warp(const Launch& on, int64_t size, int64_t across) {
  return static_cast<int>(
      std::clamp<int64_t>(size * across / (int64_t{64} * on.multiprocessors), 4, most_positions));
}

}  // namespace

template <>
void run(const Embedding& op, const Launch& on) {
  const int64_t cols = op.table.cols();
  const Tiles tiles(on, 1, op.ids.size(), cols);
  dispatch(op.table.type, all_wide(cols, op.table, op.y), [&]<class T, class Wide>(T, Wide) {
    const auto kernel =
        op.scale == 1 ? look_up<Wide::value, false, T> : look_up<Wide::value, true, T>;
    launch(on, kernel, tiles.blocks, tile_threads, tiles, op.ids.as<int32_t>(), op.table.as<T>(),
           op.y.as<T>(), op.first, op.table.rows(), Accumulator<T>{op.scale});
  });
}

template <>
void run(const EmbeddingBackward& op, const Launch& on) {
  const int64_t cols = op.dy.cols(), vocabulary = op.dtable.rows();
  const Sorted ids = sort_ids(on, op.ids.as<int32_t>(), op.ids.size(), op.first, vocabulary);
  const int64_t across = (cols + warp * pack - 1) / (warp * pack);
  const int positions = positions_of_warp(on, ids.size, across);
  const int64_t warps = (ids.size + positions - 1) / positions * across;
  constexpr int64_t per_block = tile_threads / warp;
  dispatch(op.dy.type, all_wide(cols, op.dy, op.dtable), [&]<class T, class Wide>(T, Wide) {
    dispatch_either<T>(op.dtable.type, [&]<class G>(G) {
      launch(on, add_sorted<Wide::value, T, G>,
             blocks_for(on, (warps + per_block - 1) / per_block, 64), tile_threads, ids, positions,
             op.dy.as<T>(), op.dtable.as<G>(), cols, static_cast<int32_t>(vocabulary),
             Accumulator<T>{op.scale});
    });
  });
}

}  // namespace frugal::kernels::cuda
