#pragma once
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

/// Sums over the rows of each group of consecutive rows. Rows are added up in chunks, and then the
/// chunks in their order, so that the result does not depend on the number of threads. An object
/// takes the calling thread's buffer for partial sums: one at a time.
template <class A>
class RowSums {
 public:
  /// `rows` in all, of which a group has rows / groups; `width` sums for each group.
  RowSums(int64_t groups, int64_t rows, int64_t width)
      : groups_(groups),
        rows_(rows / groups),
        width_(width),
        chunk_(std::max<int64_t>(16, (rows_ + 31) / 32)),
        chunks_((rows_ + chunk_ - 1) / chunk_),
        partial_(static_cast<A*>(scratch(
            Scratch::partial_sums, static_cast<size_t>(groups_ * chunks_ * width_) * sizeof(A)))) {}

  /// f(row, partial) for every row; partial [width] is to be added to.
  template <class F>
  void each_row(const F& f) {
    each_rows([&](int64_t first, int64_t count, A* partial) {
      for (int64_t row = first; row < first + count; ++row) f(row, partial);
    });
  }

  /// f(first, count, partial) for pieces of consecutive rows.
  template <class F>
  void each_rows(const F& f) {
    parallel(groups_ * chunks_, chunk_ * width_, [&](int64_t piece) {
      A* const partial = partial_ + piece * width_;
      std::fill_n(partial, width_, A{0});
      const int64_t group = piece / chunks_, begin = piece % chunks_ * chunk_;
      f(group * rows_ + begin, std::min(rows_ - begin, chunk_), partial);
    });
  }

  /// sum[group, j] += the sum at first + j, for j in [0, cols), rounded once to the type of sum.
  void add_to(const View& sum, int64_t first, int64_t cols) const {
    by_type(sum.type, [&]<class G>(G) {
      if constexpr (std::is_same_v<Accumulator<G>, A>) add_to(sum.as<G>(), first, cols);
    });
  }

 private:
  template <class G>
  void add_to(G* sum, int64_t first, int64_t cols) const {
    constexpr int64_t block = 512;
    const int64_t blocks = (cols + block - 1) / block;
    parallel(groups_ * blocks, chunks_ * block, [&](int64_t piece) {
      const int64_t group = piece / blocks, begin = piece % blocks * block;
      const int64_t count = std::min(block, cols - begin);
      G* const to = sum + group * cols + begin;
      A total[block];
      vectors<A>(count,
                 [&](int64_t j, int64_t n) { store(total + j, load<Vec<A>>(to + j, n), n); });
      for (int64_t c = 0; c < chunks_; ++c) {
        const A* const from = partial_ + (group * chunks_ + c) * width_ + first + begin;
        for (int64_t j = 0; j < count; ++j) total[j] += from[j];
      }
      vectors<A>(count,
                 [&](int64_t j, int64_t n) { store(to + j, load<Vec<A>>(total + j, n), n); });
    });
  }

  int64_t groups_, rows_, width_, chunk_, chunks_;
  A* partial_;
};

}  // namespace frugal::kernels::FRUGAL_SIMD
