#include "kernels/cuda/ops/exponential.cuh"
#include "kernels/cuda/ops/keep.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/rows.cuh"

namespace frugal::kernels::cuda {
namespace {

/// Rows of both operations.
template <class A>
struct Rows {
  int64_t count, of_matrix, cols;
  A scale;
  bool causal, dropout;
  Keep<A> keep;
  /// True where each row's packs are consecutive groups of the generator, so that an element's
  /// place in the serial run's tensor (a division) is asked for once in a row.
  bool of_groups;

  template <class Op>
  explicit Rows(const Op& op)
      : count(op.p.rows()),
        of_matrix(op.p.shape[1]),
        cols(op.p.cols()),
        scale(static_cast<A>(op.scale)),
        causal(op.causal),
        dropout(op.dropout.active()),
        keep(op.dropout),
        of_groups(keep.in_groups && cols % pack == 0 &&
                  (keep.index.run == GlobalIndex{}.run || keep.index.run % cols == 0)) {}

  /// Columns that a row sees. The others are not read, and written as 0.
  __device__ int64_t seen(int64_t row) const {
    return causal ? min(cols, row % of_matrix + 1) : cols;
  }
};

/// Elements of a team's packs that are kept, by Dropout or by its stored mask.
template <class L, class A>
class Kept {
  using Column = typename L::Column;
  using Bits = std::conditional_t<(L::packs > 4), uint64_t, uint32_t>;

 public:
  /// Decisions of a row that begins at element `first`. Memory has time to answer earlier reads
  /// meanwhile.
  __device__ Kept(const Rows<A>& rows, const uint8_t* mask, bool needed, int64_t first, Column seen)
      : rows_(rows), mask_(mask), first_(first), seen_(seen), needed_(needed) {
    if (needed && mask == nullptr && rows.of_groups) group_ = group_of(rows.keep, first);
    if constexpr (L::held) {
      static_assert(L::packs <= 8);
      if (!needed) return;
      if (mask != nullptr) {
        L::each(seen, [&](int k, auto j, int count) { put(k, made(j, count)); });
      } else {
        int j = L::rank() * pack;
#pragma unroll 1  // ten rounds of Philox once, not once for each pack
        for (int k = 0; k < L::packs; ++k, j += L::size() * pack)
          if (j < seen) put(k, made(j, pack));
      }
    }
  }

  /// Bit e says whether element e of pack k is kept and seen.
  __device__ uint32_t get(int k, Column j, int count) const {
    if constexpr (L::held)
      return static_cast<uint32_t>(bits_ >> (8 * k)) & 0xffU;
    else
      return made(j, count);
  }
  __device__ bool needed() const { return needed_; }

 private:
  __device__ void put(int k, uint32_t kept) { bits_ |= Bits{kept} << (8 * k); }
  /// Decisions made anew, for j before `seen`.
  __device__ uint32_t made(Column j, int count) const {
    const uint32_t kept = mask_ != nullptr ? read_mask<L::wide>(mask_ + first_ + j, count)
                          : rows_.of_groups
                              ? decide_group(rows_.keep, group_ + static_cast<uint64_t>(j) / pack)
                              : decide(rows_.keep, first_ + j);
    return seen_ - j >= pack ? kept : kept & ((1U << (seen_ - j)) - 1);
  }

  const Rows<A>& rows_;
  const uint8_t* mask_;
  int64_t first_;
  Column seen_;
  bool needed_;
  uint64_t group_ = 0;
  Bits bits_ = 0;
};

/// The larger ones of two neighbours in bf16: one instruction.
__device__ inline uint32_t larger_two(uint32_t a, uint32_t b) {
  using Two = __nv_bfloat162;
  const Two most = __hmax2(reinterpret_cast<const Two&>(a), reinterpret_cast<const Two&>(b));
  return reinterpret_cast<const uint32_t&>(most);
}

/// The largest sign · x of what a thread has of a row before `seen`.
template <class A, class L, class T>
__device__ A largest(const Row<L, T>& row, typename L::Column seen, A sign) {
  A most = lowest<A>();
  if constexpr (L::held && std::is_same_v<T, Bf16>) {    // two at a time, as they lie in memory
    constexpr uint32_t low = 0xff80U, high = low << 16;  // −∞
    const uint32_t flipped = sign < 0 ? 0x80008000U : 0U;
    uint32_t two = low | high;
    L::each(seen, [&](int k, int j, int) {
      Packed<T> x = row.held(k);
      for (auto& word : x.word) word ^= flipped;
      if (seen - j < pack) {
#pragma unroll
        for (int e = 0; e < pack; ++e)
          if (e >= seen - j)
            x.word[e / 2] =
                e % 2 == 0 ? (x.word[e / 2] & ~0xffffU) | low : (x.word[e / 2] & 0xffffU) | high;
      }
      for (const auto& word : x.word) two = larger_two(two, word);
    });
    most = Maximum{}(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000U));
  } else {
    L::each(seen, [&](int k, auto j, int count) {
      A v[pack];
      row.get(k, j, count, v);
#pragma unroll
      for (auto& e : v) e *= sign;
      fill_tail(v, seen - j, lowest<A>());
#pragma unroll
      for (const auto& e : v) most = Maximum{}(most, e);
    });
  }
  return most;
}

/// Blocks that a multiprocessor has at a time: 24 warps where a row of bf16 has one of them. Else
/// the compiler would rather work on several packs at once.
template <class L, class T>
constexpr int resident = L::one_warp && sizeof(T) == 2 ? 6 : L::least_blocks;

template <class L, class T>
__global__ void __launch_bounds__(L::most_threads, resident<L, T>)
    forward(Rows<Accumulator<T>> rows, const T* x, T* p, T* dropped, uint8_t* mask) {
  using A = Accumulator<T>;
  const int64_t row = L::row();
  if (row >= rows.count) return;
  const int64_t first = row * rows.cols;
  const auto seen = static_cast<typename L::Column>(rows.seen(row));
  Row<L, T> of_row(x + first, seen);
  const Kept<L, A> kept(rows, nullptr, dropped != nullptr || mask != nullptr, first, seen);
  const A sign = rows.scale < 0 ? A(-1) : A(1);
  const A most = sign * L::reduce(largest<A>(of_row, seen, sign), lowest<A>(), Maximum{});
  of_row.between_uses();

  const ExponentialBelow<T, A> exponential_of(most, rows.scale);
  // Where two instructions make one they are made again for each use, in fewer registers.
  constexpr bool kept_ready = L::held && !std::is_same_v<T, Bf16>;
  A held[kept_ready ? L::slots : 1][pack], total = 0;
  const auto exponentials = [&](int k, auto j, int count) -> A(&)[pack] {
    A(&v)[pack] = held[kept_ready ? k : 0];
    of_row.get(k, j, count, v);
#pragma unroll
    for (auto& e : v) e = exponential_of(e);
    fill_tail(v, seen - j, A{0});
    return v;
  };
  L::each(seen, [&](int k, auto j, int count) {
    for (const auto& e : exponentials(k, j, count)) total += e;
  });
  const A inverse = 1 / L::sum(total);
  of_row.between_uses();

  L::each(rows.cols, [&](int k, auto j, int count) {
    A v[pack] = {};
    uint32_t bits = 0;
    if (j < seen) {
      const A(&of_pack)[pack] = kept_ready ? held[k] : exponentials(k, j, count);
#pragma unroll
      for (int e = 0; e < pack; ++e) v[e] = of_pack[e] * inverse;
      if (kept.needed()) bits = kept.get(k, j, count);
    }
    store<L::wide>(p + first + j, count, v);
    if (mask != nullptr) write_mask<L::wide>(mask + first + j, count, bits);
    if (dropped == nullptr) return;
    apply(bits, rows.keep.scale, v);
    store<L::wide>(dropped + first + j, count, v);
  });
}

template <class L, class T>
__global__ void __launch_bounds__(L::most_threads, L::least_blocks)
    backward(Rows<Accumulator<T>> rows, const T* dy, const T* p, const uint8_t* mask, T* dx) {
  using A = Accumulator<T>;
  const int64_t row = L::row();
  if (row >= rows.count) return;
  const int64_t first = row * rows.cols;
  const auto seen = static_cast<typename L::Column>(rows.seen(row));
  Row<L, T> dy_row(dy + first, seen), p_row(p + first, seen);
  const Kept<L, A> kept(rows, mask, mask != nullptr || rows.dropout, first, seen);
  const auto gradient = [&](int k, auto j, int count, A(&dp)[pack]) {
    dy_row.get(k, j, count, dp);
    fill_tail(dp, seen - j, A{0});
    if (kept.needed()) apply(kept.get(k, j, count), rows.keep.scale, dp);
  };

  A dot = 0;
  L::each(seen, [&](int k, auto j, int count) {
    A dp[pack], v[pack];
    gradient(k, j, count, dp);
    p_row.get(k, j, count, v);
#pragma unroll
    for (int e = 0; e < pack; ++e) dot += v[e] * dp[e];
  });
  dot = L::sum(dot);
  dy_row.between_uses();
  p_row.between_uses();

  L::each(rows.cols, [&](int k, auto j, int count) {
    A d[pack] = {};
    if (j < seen) {
      A dp[pack];
      gradient(k, j, count, dp);
      p_row.get(k, j, count, d);
#pragma unroll
      for (int e = 0; e < pack; ++e) d[e] *= (dp[e] - dot) * rows.scale;
      fill_tail(d, seen - j, A{0});
    }
    store<L::wide>(dx + first + j, count, d);
  });
}

}  // namespace

template <>
void run(const Softmax& op, const Launch& on) {
  const int64_t cols = op.p.cols(), rows = op.p.rows();
  dispatch(op.p.type, all_wide(cols, op.x, op.p, op.mask, op.dropped),
           [&]<class T, class Wide>(T, Wide) {
             dispatch_row<T, Wide::value, 1>(cols, [&]<class L>(L, int threads) {
               launch(on, forward<L, T>, row_blocks<L>(rows, threads), threads,
                      Rows<Accumulator<T>>(op), op.x.as<T>(), op.p.as<T>(), op.dropped.as<T>(),
                      op.mask.as<uint8_t>());
             });
           });
}

template <>
void run(const SoftmaxBackward& op, const Launch& on) {
  const int64_t cols = op.p.cols(), rows = op.p.rows();
  dispatch(op.p.type, all_wide(cols, op.dy, op.p, op.mask, op.dx),
           [&]<class T, class Wide>(T, Wide) {
             dispatch_row<T, Wide::value, 2>(cols, [&]<class L>(L, int threads) {
               launch(on, backward<L, T>, row_blocks<L>(rows, threads), threads,
                      Rows<Accumulator<T>>(op), op.dy.as<T>(), op.p.as<T>(), op.mask.as<uint8_t>(),
                      op.dx.as<T>());
             });
           });
}

}  // namespace frugal::kernels::cuda
