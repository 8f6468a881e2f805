#include <limits>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/keep.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

template <class A>
A* row_buffer(int64_t cols) {
  return static_cast<A*>(scratch(Scratch::row, static_cast<size_t>(cols + lanes<A>) * sizeof(A)));
}

/// The columns of a row that are computed: those that it sees, and more up to a whole vector, which
/// come out as 0 like all others.
struct SeenColumns {
  int64_t seen, computed;
};
template <class A>
SeenColumns columns(const View& p, bool causal, int64_t row) {
  const int64_t cols = p.cols();
  const int64_t seen = causal ? std::min(cols, row % p.shape[p.shape.dims - 2] + 1) : cols;
  return {seen, std::min(cols, (seen + lanes<A> - 1) / lanes<A> * lanes<A>)};
}

template <class T>
void zero(T* row, int64_t begin, int64_t end, bool past) {
  using V = Vec<Accumulator<T>>;
  vectors<Accumulator<T>>(
      end - begin, [=](int64_t j, int64_t count) { store(row + begin + j, V{}, count, past); });
}

/// e[j] = exp(scale · (x[j] − the x where that is largest)), whole vectors of it; returns their
/// sum. Fetches the row `ahead` elements further meanwhile.
template <class T, class A>
A exponentials(const T* x, SeenColumns n, A scale, int64_t ahead, A* e) {
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  const auto at = [=](int64_t j, int64_t count) { return load<Vec<A>>(x + j, count); };
  const auto larger = [](auto a, auto b) { return max(a, b); };
  const A sign = std::copysign(A{1}, scale);
  const A most =
      sign * max_lanes(reduce<A>(n.computed, lowest, larger, [=](int64_t j, int64_t count) {
        return fill_tail(at(j, count) * sign, n.seen - j, lowest);
      }));
  return sum<A>(n.computed, [=](int64_t j, int64_t count) {
    prefetch(x + ahead + j);
    const auto v = fill_tail(exp_for<T>(at(j, count) - most, scale), n.seen - j, 0);
    store(e + j, v, lanes<A>);
    return v;
  });
}

template <class T>
void forward_row(const Softmax& op, int64_t row) {
  using A = Accumulator<T>;
  const int64_t cols = op.p.cols();
  const SeenColumns n = columns<A>(op.p, op.causal, row);
  T* const p = op.p.as<T>() + row * cols;
  T* const dropped = op.dropped.empty() ? nullptr : op.dropped.as<T>() + row * cols;
  A* const e = row_buffer<A>(cols);
  const A total = exponentials(op.x.as<T>() + row * cols, n, A(op.scale), next_row(op.p, row), e);
  const A inverse = 1 / total, keep_scale = A(op.dropout.keep_scale());
  const bool past = past_cache(op.p, op.x);
  segments(n.computed, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const uint8_t* const keep =
        decide_keep(op.mask, op.dropout, row * cols + begin, length, buffer);
    map(length, p + begin, past, [&](int64_t j, int64_t count) {
      const auto v = load<Vec<A>>(e + begin + j, count) * inverse;
      if (dropped != nullptr) {
        store(dropped + begin + j, apply_keep(v, keep, j, count, keep_scale), count, past);
      }
      return v;
    });
  });
  zero(p, n.computed, cols, past);
  if (dropped != nullptr) zero(dropped, n.computed, cols, past);
  if (!op.mask.empty()) {
    auto* const mask = op.mask.as<uint8_t>() + row * cols;
    std::fill(mask + n.seen, mask + cols, uint8_t{0});
  }
}

template <class T>
void backward_row(const SoftmaxBackward& op, int64_t row) {
  using A = Accumulator<T>;
  const int64_t cols = op.p.cols();
  const SeenColumns n = columns<A>(op.p, op.causal, row);
  const T* const p = op.p.as<T>() + row * cols;
  const T* const dy = op.dy.as<T>() + row * cols;
  T* const dx = op.dx.as<T>() + row * cols;
  A* const dp = row_buffer<A>(cols);
  const A scale = A(op.scale), keep_scale = A(op.dropout.keep_scale());
  A dot = 0;
  segments(n.computed, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const uint8_t* const keep = keep_of(op.mask, op.dropout, row * cols + begin, length, buffer);
    dot += sum<A>(length, [&](int64_t j, int64_t count) {
      const auto seen = fill_tail(load<Vec<A>>(dy + begin + j, count), n.seen - begin - j, 0);
      const auto v = apply_keep(seen, keep, j, count, keep_scale);
      store(dp + begin + j, v, count);
      return load<Vec<A>>(p + begin + j, count) * v;
    });
  });
  const bool past = past_cache(op.dx, op.dy);
  const int64_t ahead = next_row(op.p, row);
  map(n.computed, dx, past, [&](int64_t j, int64_t count) {
    prefetch(p + ahead + j);
    prefetch(dy + ahead + j);
    const auto difference = load<Vec<A>>(dp + j, count) - dot;
    return load<Vec<A>>(p + j, count) * difference * scale;
  });
  zero(dx, n.computed, cols, past);
}

}  // namespace

template <>
void run(const Softmax& op) {
  by_type(op.x.type, [&]<class T>(T) {
    parallel(op.p.rows(), op.p.cols(), [&](int64_t row) { forward_row<T>(op, row); });
  });
}

template <>
void run(const SoftmaxBackward& op) {
  by_type(op.p.type, [&]<class T>(T) {
    parallel(op.p.rows(), op.p.cols(), [&](int64_t row) { backward_row<T>(op, row); });
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
