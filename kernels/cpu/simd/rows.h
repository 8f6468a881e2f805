#pragma once
#include <algorithm>
#include <utility>

#include "kernels/cpu/simd/simd.h"
#include "kernels/operations.h"
#include "kernels/support/scratch.h"

/// Rows and elements of operands, and their division among threads: always in pieces that do not
/// depend on the number of threads.
namespace frugal::kernels::FRUGAL_SIMD {

/// Executes an operation, or a step of fused attention. Each one defines it in this folder.
template <OwnKernel Op>
void run(const Op& op);

/// Calls f with a value of the type that elements are stored as.
template <class F>
inline void by_type(DType type, F f) {
  switch (type) {
    case DType::bf16:
      return f(Bf16{});
    case DType::f64:
      return f(double{});
    default:
      return f(float{});
  }
}

inline constexpr int64_t worth_a_thread = 16384;  // elements; less is done before others wake up

/// f(i) for i in [0, n), each of about `elements` elements.
template <class F>
inline void parallel(int64_t n, int64_t elements, const F& f) {
  if (n * elements < worth_a_thread) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) f(i);
}

/// f(first, count) for pieces of [0, n).
template <class F>
inline void parallel_pieces(int64_t n, const F& f) {
  constexpr int64_t piece = 4096;
  parallel((n + piece - 1) / piece, piece,
           [&](int64_t i) { f(i * piece, std::min(piece, n - i * piece)); });
}

/// f(j, count) for each vector of A in [0, n); count is less than its lanes only in the last one.
template <class A, class F>
inline void vectors(int64_t n, const F& f) {
  int64_t j = 0;
  for (; j + lanes<A> <= n; j += lanes<A>) f(j, int64_t{lanes<A>});
  if (j < n) f(j, n - j);
}

/// y[j] … = f(j, count) for each vector in [0, n), two at a time.
template <class T, class F>
inline void map(int64_t n, T* y, bool past_cache, const F& f) {
  constexpr int64_t width = lanes<Accumulator<T>>;
  int64_t j = 0;
  for (; j + 2 * width <= n; j += 2 * width) {
    const auto first = f(j, width);
    store_pair(y + j, first, f(j + width, width), past_cache);
  }
  for (; j < n; j += width) {
    const int64_t count = std::min(width, n - j);
    store(y + j, f(j, count), count, past_cache);
  }
}

/// Maps to two results at a time: y[j] … and z[j] … are the pair f(j, count).
template <class T, class F>
inline void map_pairs(int64_t n, T* y, T* z, bool past_cache, const F& f) {
  constexpr int64_t width = lanes<Accumulator<T>>;
  int64_t j = 0;
  for (; j + 2 * width <= n; j += 2 * width) {
    const auto first = f(j, width), second = f(j + width, width);
    store_pair(y + j, first.first, second.first, past_cache);
    store_pair(z + j, first.second, second.second, past_cache);
  }
  for (; j < n; j += width) {
    const int64_t count = std::min(width, n - j);
    const auto last = f(j, count);
    store(y + j, last.first, count, past_cache);
    store(z + j, last.second, count, past_cache);
  }
}

/// y in parallel, with indices from the first element of all.
template <class T, class F>
inline void parallel_map(int64_t n, T* y, bool past_cache, const F& f) {
  parallel_pieces(n, [&](int64_t first, int64_t length) {
    map(length, y + first, past_cache,
        [&](int64_t j, int64_t count) { return f(first + j, count); });
  });
}

/// f(i, count) for each vector of A in [0, n).
template <class A, class F>
inline void parallel_vectors(int64_t n, const F& f) {
  parallel_pieces(n, [&](int64_t first, int64_t length) {
    vectors<A>(length, [&](int64_t j, int64_t count) { f(first + j, count); });
  });
}

/// True for an output that does not replace the input and is too large for the last-level cache: it
/// is better written past it.
inline bool past_cache(const View& output, const View& input) {
  return output.data != input.data && output.bytes() >= last_level_cache_bytes();
}

/// Distance of the next row in elements, 0 where there is none.
inline int64_t next_row(const View& x, int64_t row) { return row + 1 < x.rows() ? x.cols() : 0; }

/// combine(…) of f(j, count) for all vectors of [0, n), four chains at a time to hide latencies.
template <class A, class Combine, class F>
inline Vec<A> reduce(int64_t n, A start, const Combine& combine, const F& f) {
  constexpr int64_t width = lanes<A>;
  Vec<A> a = broadcast<Vec<A>>(start), b = a, c = a, d = a;
  int64_t j = 0;
  for (; j + 4 * width <= n; j += 4 * width) {
    a = combine(a, f(j, width));
    b = combine(b, f(j + width, width));
    c = combine(c, f(j + 2 * width, width));
    d = combine(d, f(j + 3 * width, width));
  }
  for (; j < n; j += width) a = combine(a, f(j, std::min(width, n - j)));
  return combine(combine(a, b), combine(c, d));
}
template <class A, class F>
inline A sum(int64_t n, const F& f) {
  return sum_lanes(reduce<A>(
      n, A{0}, [](auto a, auto b) { return a + b; }, f));
}

}  // namespace frugal::kernels::FRUGAL_SIMD
