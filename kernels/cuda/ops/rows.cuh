#pragma once
#include "kernels/cuda/ops/block.cuh"

/// Rows that are read once: a team of threads holds a row in registers, thread r of it the packs
/// r, r + size, r + 2 · size and so on. A short row's team is a warp, which needs no barrier, so
/// that the warps of a multiprocessor are at different places and memory is always busy; a longer
/// one's is a block.
namespace frugal::kernels::cuda {

inline constexpr int row_threads = 512;   // of a block at most
inline constexpr int warps_of_block = 4;  // where each has a row of its own

/// Place of a row: `packs` in the registers of each thread, or for 0 none, so that it is read again
/// wherever it is needed, and may have any length.
template <int packs_, bool one_warp_, bool wide_>
struct RowLayout {
  static constexpr int packs = packs_;
  static constexpr bool held = packs > 0, one_warp = one_warp_, wide = wide_;
  using Column = std::conditional_t<held, int, int64_t>;
  static_assert(wide || !held, "rows that are not wide are not meant to be fast");
  /// The extent of arrays that have an entry for each pack held.
  static constexpr int slots = held ? packs : 1;
  /// Bound for __launch_bounds__: 128 registers.
  static constexpr int most_threads = one_warp ? warps_of_block * warp : row_threads;
  static constexpr int least_blocks = one_warp ? 4 : 1;

  static __device__ int size() { return one_warp ? warp : static_cast<int>(blockDim.x); }
  static __device__ int rank() { return static_cast<int>(threadIdx.x) % (one_warp ? warp : 1024); }
  /// The row that this thread works on. It may lie beyond the last one: for all of a team.
  static __device__ int64_t row() { return one_warp ? grid_thread() / warp : blockIdx.x; }

  template <class A, class Combine>
  static __device__ A reduce(A x, A start, Combine combine) {
    if constexpr (one_warp)
      return reduce_warp(x, combine);
    else
      return reduce_block(x, start, combine);
  }
  template <class A>
  static __device__ A sum(A x) {
    return reduce(x, A{0}, Plus{});
  }

  /// f(slot, j, count) for this thread's packs of [0, cols): count elements from j on.
  template <class F>
  static __device__ void each(int64_t cols, const F& f) {
    if constexpr (held) {
      const int last = static_cast<int>(cols);
      int j = rank() * pack;
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        if (j < last) f(k, j, pack);
        j += size() * pack;
      }
    } else {
      for (int64_t j = int64_t{rank()} * pack; j < cols; j += int64_t{size()} * pack)
        f(0, j, wide || cols - j > pack ? pack : static_cast<int>(cols - j));
    }
  }
};

/// A row as its team holds it.
template <class L, class T>
class Row {
 public:
  /// Reads columns [0, cols), whole packs.
  __device__ Row(const T* row, int64_t cols) : row_(row) {
    if constexpr (L::held) L::each(cols, [&](int k, auto j, int) { raw_[k].read(row + j); });
  }
  /// Pack k, which has `count` elements from j on; the others become 0.
  template <class A>
  __device__ void get(int k, int64_t j, int count, A (&x)[pack]) const {
    if constexpr (L::held) {
      raw_[k].get(x);
    } else {
      load<L::wide>(row_ + j, count, x);
    }
  }
  __device__ const Packed<T>& held(int k) const { return raw_[k]; }
  /// Separates two uses of get() for all packs.
  __device__ void between_uses() {
    if constexpr (L::held) {
#pragma unroll
      for (auto& raw : raw_) raw.between_uses();
    }
  }

 private:
  const T* row_;
  Packed<T> raw_[L::slots];
};

/// x[valid …) := value.
template <class A, class Column>
__device__ inline void fill_tail(A (&x)[pack], Column valid, A value) {
  if (valid >= pack) return;
#pragma unroll
  for (int e = 0; e < pack; ++e)
    if (e >= valid) x[e] = value;
}

/// Threads that hold `all` at `packs` each.
inline int team_size(int64_t all, int64_t packs) {
  return static_cast<int>((all + packs * warp - 1) / (packs * warp) * warp);
}

/// The blocks that `rows` teams make.
template <class L>
int64_t row_blocks(int64_t rows, int threads) {
  const int64_t teams = L::one_warp ? threads / warp : 1;
  return (rows + teams - 1) / teams;
}

/// f(RowLayout{}, threads of a block) for kernels that hold a row of each of `tensors` operands of
/// T. Rows in double precision, which is there to check others by, are not held.
template <class T, bool wide, int tensors, class F>
void dispatch_row(int64_t cols, const F& f) {
  const int64_t all = (cols + pack - 1) / pack;
  const auto by_warp = [&]<int packs>(std::integral_constant<int, packs>) {
    f(RowLayout<packs, true, wide>{}, warps_of_block * warp);
  };
  const auto by_block = [&]<int packs>(std::integral_constant<int, packs>) {
    f(RowLayout<packs, false, wide>{}, team_size(all, packs));
  };
  if constexpr (wide && !std::is_same_v<T, double>) {
    constexpr int most = 16 / sizeof(T) / tensors;  // packs of a thread: 32 registers
    constexpr std::integral_constant<int, most> whole;
    constexpr std::integral_constant<int, most / 2> half;
    if (all <= warp) return by_warp(std::integral_constant<int, 1>{});
    if (all <= half * warp) return by_warp(half);
    if (all <= whole * warp) return by_warp(whole);
    if (all <= whole * row_threads) {
      // Where fewer threads would hold less of the row than they could, more of them do.
      const bool full = team_size(all, whole) * 2 <= team_size(all, half);
      return full || all > half * row_threads ? by_block(whole) : by_block(half);
    }
  }
  if (cols <= warp * pack) return by_warp(std::integral_constant<int, 0>{});
  f(RowLayout<0, false, wide>{}, std::min(team_size(all, 1), row_threads));
}

}  // namespace frugal::kernels::cuda
