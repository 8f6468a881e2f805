#include <array>

#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// Rows of elements that follow each other in both operands of a copy, in up to three dimensions:
/// as few and as long as there are.
struct Runs {
  struct Dimension {
    int64_t extent = 1, x = 0, y = 0;  ///< and its strides
  };
  std::array<Dimension, Shape::max_dims> outer;  ///< outermost first, the first `dims` of them
  int dims = 0;
  int64_t count = 1;
  Dimension inner{1, 1, 1};

  Runs(const View& x, const View& y) {
    const Shape& shape = x.shape;
    std::array<Dimension, Shape::max_dims> found;  // innermost first
    int last_found = 0;
    found[0] = {shape[shape.dims - 1], 1, 1};
    for (int i = shape.dims - 2; i >= 0; --i) {
      const Dimension next{shape[i], x.stride[static_cast<size_t>(i)],
                           y.stride[static_cast<size_t>(i)]};
      Dimension& last = found[static_cast<size_t>(last_found)];
      if (next.extent == 1) continue;
      if (next.x == last.extent * last.x && next.y == last.extent * last.y)
        last.extent *= next.extent;
      else
        found[static_cast<size_t>(++last_found)] = next;
    }
    inner = found[0];
    for (int i = last_found; i > 0; --i) {
      outer[static_cast<size_t>(dims++)] = found[static_cast<size_t>(i)];
      count *= found[static_cast<size_t>(i)].extent;
    }
  }
  /// f(first of x, first of y) for the run of this number.
  template <class F>
  void at(int64_t number, const F& f) const {
    int64_t x = 0, y = 0;
    for (int i = dims - 1; i >= 0; --i) {
      const Dimension& d = outer[static_cast<size_t>(i)];
      x += number % d.extent * d.x;
      y += number % d.extent * d.y;
      number /= d.extent;
    }
    f(x, y);
  }
};

/// f(first of x, first of y, count) for pieces of all runs, in parallel.
template <class F>
void each_run(const Copy& op, const F& f) {
  const Runs runs(op.x, op.y);
  if (runs.dims == 0)
    return parallel_pieces(runs.inner.extent,
                           [&](int64_t first, int64_t count) { f(first, first, count); });
  parallel(runs.count, runs.inner.extent, [&](int64_t number) {
    runs.at(number, [&](int64_t x, int64_t y) { f(x, y, runs.inner.extent); });
  });
}

void copy_bytes(const Copy& op) {
  const int64_t size = size_of(op.x.type);
  const auto* const x = static_cast<const char*>(op.x.data);
  auto* const y = static_cast<char*>(op.y.data);
  each_run(op, [=](int64_t from, int64_t to, int64_t count) {
    std::memcpy(y + to * size, x + from * size, static_cast<size_t>(count * size));
  });
}

template <class T, class U>
void copy_elements(const Copy& op) {
  using V = Vec<Accumulator<T>>;
  const T* const x = op.x.as<T>();
  U* const y = op.y.as<U>();
  const bool past = !op.accumulate && past_cache(op.y, op.x);
  each_run(op, [=, accumulate = op.accumulate](int64_t from, int64_t to, int64_t count) {
    map(count, y + to, past, [=](int64_t j, int64_t n) {
      const V v = load<V>(x + from + j, n);
      return accumulate ? load<V>(y + to + j, n) + v : v;
    });
  });
}

}  // namespace

template <>
void run(const Copy& op) {
  if (op.x.size() == 0) return;
  if (op.x.type == op.y.type && !op.accumulate) return copy_bytes(op);
  by_type(op.x.type, [&]<class T>(T) {
    by_type(op.y.type, [&]<class U>(U) {
      if constexpr (std::is_same_v<Accumulator<T>, Accumulator<U>>) copy_elements<T, U>(op);
    });
  });
}

template <>
void run(const Transfer& op) {
  const auto* const from = static_cast<const char*>(op.from.data);
  auto* const to = static_cast<char*>(op.to.data);
  parallel_pieces(op.from.bytes(), [=](int64_t first, int64_t count) {
    std::memcpy(to + first, from + first, static_cast<size_t>(count));
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
