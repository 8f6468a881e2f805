#include <algorithm>

#include "kernels/cuda/ops/block.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/strides.cuh"

// A block has all pairs, or a part of them, of some heads at some positions. It computes the angle
// of a pair at a position once, for all its heads, in shared memory. Then each thread keeps to a
// pack of pairs and goes from head to head.
namespace frugal::kernels::cuda {
namespace {

constexpr int turn_threads = 256;
constexpr int most_angles = turn_threads * pack;  // of a block

/// Heads of all groups at a position are its rows.
template <class T>
struct Turn {
  T* x;
  const Accumulator<T>* frequencies;
  int64_t positions, position_stride, group_stride, head_stride, first;
  unsigned heads, rows, half;
  bool inverse;

  unsigned width, tall;         ///< threads side by side, a pack of pairs each; rows at a time
  unsigned at_once, row_chunk;  ///< positions and rows of each that a block has
  unsigned across, chunks;      ///< blocks side by side, and for the rows of a position

  Turn(const Rotary& op)
      : x(op.x.as<T>()),
        frequencies(op.frequencies.as<Accumulator<T>>()),
        positions(op.x.shape[0]),
        position_stride(op.x.stride[0]),
        group_stride(op.x.stride[1]),
        head_stride(op.x.stride[static_cast<size_t>(op.x.shape.dims) - 2]),
        first(op.first),
        heads(static_cast<unsigned>(op.x.shape[op.x.shape.dims - 2])),
        rows(static_cast<unsigned>(op.x.rows() / positions)),
        half(static_cast<unsigned>(op.x.cols() / 2)),
        inverse(op.inverse) {
    constexpr unsigned at_a_time = 2, most = 4;  // rows that a thread should have, and may
    const unsigned packs = (half + pack - 1) / pack;
    width = std::min(packs, unsigned{turn_threads});
    across = (packs + width - 1) / width;
    tall = turn_threads / width;
    at_once = std::clamp(at_a_time * tall / rows, 1U, tall);
    row_chunk = std::min(rows, most * tall);
    chunks = (rows + row_chunk - 1) / row_chunk;
  }
  int64_t blocks() const { return (positions + at_once - 1) / at_once * chunks * across; }
};

/// Cosine and sine of position · frequency. What is left of it after full turns is made of products
/// and their rounding errors, so that it has as many digits as at position 1.
template <class A>
__device__ void turned(int64_t position, A frequency, A& cosine, A& sine) {
  constexpr double turn = 0.15915494309189535, turn_rest = -9.839338337591243e-18;  // 1 / 2π
  const auto p = static_cast<double>(position), f = static_cast<double>(frequency);
  const double angle = p * f, turns = angle * turn;
  const double rest = fma(angle, turn, -turns) + angle * turn_rest + fma(p, f, -angle) * turn;
  const auto half_turns = static_cast<A>(2 * (turns - rint(turns) + rest));
  if constexpr (std::is_same_v<A, double>)
    sincospi(half_turns, &sine, &cosine);
  else
    sincospif(half_turns, &sine, &cosine);
}

/// Packs of the two halves of a head, whose elements are pairs.
template <class T>
struct Pairs {
  T* low = nullptr;
  Packed<T> first, second;
};

template <bool wide, class T>
__global__ void __launch_bounds__(turn_threads) turn_pairs(const Turn<T> op) {
  using A = Accumulator<T>;
  alignas(16) FRUGAL_SHARED(A, cosines, [most_angles]);
  alignas(16) FRUGAL_SHARED(A, sines, [most_angles]);
  const unsigned tile = blockIdx.x / op.across;
  const int64_t position = int64_t{tile / op.chunks} * op.at_once;
  const auto here = static_cast<unsigned>(
      op.positions - position < op.at_once ? op.positions - position : op.at_once);
  const unsigned first_row = tile % op.chunks * op.row_chunk;
  const unsigned rows = op.rows - first_row < op.row_chunk ? op.rows - first_row : op.row_chunk;
  const unsigned first_col = blockIdx.x % op.across * op.width * pack, cols = op.width * pack;
  for (unsigned i = threadIdx.x; i < here * cols; i += turn_threads) {
    const unsigned col = first_col + i % cols;
    if (col >= op.half) continue;
    A sine;
    turned(op.first + position + i / cols, op.frequencies[col], cosines[i], sine);
    sines[i] = op.inverse ? -sine : sine;
  }
  __syncthreads();

  const unsigned own = threadIdx.x % op.width * pack, col = first_col + own;
  if (threadIdx.x >= op.width * op.tall || col >= op.half) return;
  const int64_t count = op.half - col < pack ? op.half - col : pack;
  constexpr unsigned at_once = 2;
  for (unsigned r = threadIdx.x / op.width; r < here * rows; r += at_once * op.tall) {
    Pairs<T> held[at_once];
#pragma unroll
    for (unsigned u = 0; u < at_once; ++u) {
      const unsigned i = r + u * op.tall, row = first_row + i % rows;
      if (i >= here * rows) continue;
      held[u].low = op.x + (position + i / rows) * op.position_stride +
                    row / op.heads * op.group_stride + row % op.heads * op.head_stride + col;
      held[u].first = fetch<wide>(held[u].low, count);
      held[u].second = fetch<wide>(held[u].low + op.half, count);
    }
#pragma unroll
    for (unsigned u = 0; u < at_once; ++u) {
      const unsigned i = r + u * op.tall;
      if (i >= here * rows) continue;
      A a[pack], b[pack], cosine[pack], sine[pack];
      held[u].first.get(a);
      held[u].second.get(b);
      load<true>(cosines + i / rows * cols + own, pack, cosine);
      load<true>(sines + i / rows * cols + own, pack, sine);
#pragma unroll
      for (int e = 0; e < pack; ++e) {
        const A x = a[e];
        a[e] = x * cosine[e] - b[e] * sine[e];
        b[e] = x * sine[e] + b[e] * cosine[e];
      }
      store<wide>(held[u].low, count, a);
      store<wide>(held[u].low + op.half, count, b);
    }
  }
}

}  // namespace

template <>
void run(const Rotary& op, const Launch& on) {
  if (op.x.size() == 0) return;
  const bool wide = all_wide(op.x.cols() / 2, op.x) && rows_wide(op.x);  // halves of a head
  dispatch(op.x.type, wide, [&]<class T, class Wide>(T, Wide) {
    const Turn<T> turn(op);
    launch(on, turn_pairs<Wide::value, T>, turn.blocks(), turn_threads, turn);
  });
}

}  // namespace frugal::kernels::cuda
