#include <limits>

#include "kernels/cpu/simd/attention_steps.h"
#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/keep.h"
#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {
namespace {

/// Columns of a row that are computed: those that it sees, up to a whole vector.
template <class A>
int64_t computed(const ScoreBlock& block, int64_t seen) {
  return std::min(block.cols, (seen + lanes<A> - 1) / lanes<A> * lanes<A>);
}

/// f(first column, columns, their dropout decisions or null) for each segment of a row.
template <class F>
void decided_segments(const ScoreBlock& block, int64_t row, int64_t cols, const F& f) {
  segments(cols, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const int64_t element = block.element + row * block.elements_per_row + begin;
    f(begin, length, keep_of({}, block.dropout, element, length, buffer));
  });
}

template <class T>
void zero(T* row, int64_t begin, int64_t end) {
  using A = Accumulator<T>;
  vectors<A>(end - begin,
             [=](int64_t j, int64_t count) { store(row + begin + j, Vec<A>{}, count); });
}

template <class T>
void softmax_row(const OnlineSoftmax& op, int64_t row) {
  using A = Accumulator<T>;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  const ScoreBlock& block = op.block;
  const int64_t seen = block.seen(row), n = computed<A>(block, seen), d = op.y.cols();
  const A* const x = op.scores.as<A>() + row * block.cols;
  T* const p = op.p.as<T>() + row * block.cols;
  zero(p, n, block.cols);
  if (seen == 0) return;
  const A scale = A(block.scale), keep_scale = A(block.dropout.keep_scale());
  const auto scaled = [=](int64_t j, int64_t count) { return load<Vec<A>>(x + j, count) * scale; };
  const auto larger = [](auto a, auto b) { return max(a, b); };
  const A before = op.largest.as<A>()[row];
  const A largest =
      std::max(before, max_lanes(reduce<A>(n, lowest, larger, [=](int64_t j, int64_t count) {
                 return fill_tail(scaled(j, count), seen - j, lowest);
               })));
  A total = 0;
  decided_segments(block, row, n, [&](int64_t begin, int64_t length, const uint8_t* keep) {
    total += sum<A>(length, [&](int64_t j, int64_t count) {
      const auto e = fill_tail(exp_for<T>(scaled(begin + j, count) - largest), seen - begin - j, 0);
      store(p + begin + j, apply_keep(e, keep, j, count, keep_scale), count);
      return e;
    });
  });
  const A shrink = largest == before ? 1 : std::exp(before - largest);
  op.largest.as<A>()[row] = largest;
  op.sum.as<A>()[row] = op.sum.as<A>()[row] * shrink + total;
  if (shrink == 1) return;
  A* const y = op.y.as<A>() + row * d;
  map(d, y, false, [=](int64_t j, int64_t count) { return load<Vec<A>>(y + j, count) * shrink; });
}

template <class T>
void gradient_row(const ScoreGradient& op, int64_t row) {
  using A = Accumulator<T>;
  const ScoreBlock& block = op.block;
  const int64_t seen = block.seen(row), n = computed<A>(block, seen), first = row * block.cols;
  const A* const x = op.scores.as<A>() + first;
  const A* const dp = op.dp.as<A>() + first;
  T* const dropped = op.dropped.as<T>() + first;
  T* const dx = op.dscores.as<T>() + first;
  const A scale = A(block.scale), keep_scale = A(block.dropout.keep_scale());
  const A log_sum_exp = op.log_sum_exp.as<A>()[row], dot = op.dots.as<A>()[row];
  decided_segments(block, row, n, [&](int64_t begin, int64_t length, const uint8_t* keep) {
    vectors<A>(length, [&](int64_t j, int64_t count) {
      const int64_t at = begin + j;
      const auto argument = load<Vec<A>>(x + at, count) * scale - log_sum_exp;
      const auto p = fill_tail(exp_for<T>(argument), seen - at, 0);
      const auto through = apply_keep(load<Vec<A>>(dp + at, count), keep, j, count, keep_scale);
      store(dropped + at, apply_keep(p, keep, j, count, keep_scale), count);
      store(dx + at, fill_tail(p * (through - dot) * scale, seen - at, 0), count);
    });
  });
  zero(dropped, n, block.cols);
  zero(dx, n, block.cols);
}

}  // namespace

void run(const OnlineSoftmax& op) {
  by_type(op.block.type, [&]<class T>(T) {
    for (int64_t row = 0; row < op.block.rows; ++row) softmax_row<T>(op, row);
  });
}

void run(const ScoreGradient& op) {
  by_type(op.block.type, [&]<class T>(T) {
    for (int64_t row = 0; row < op.block.rows; ++row) gradient_row<T>(op, row);
  });
}

void run(const RowDots& op) {
  by_type(op.a.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    for (int64_t row = 0; row < op.a.shape[0]; ++row) {
      const T* const a = op.a.as<T>() + row * op.a.stride[0];
      const T* const b = op.b.as<T>() + row * op.b.stride[0];
      op.dots.as<A>()[row] = sum<A>(op.a.cols(), [=](int64_t j, int64_t count) {
        return load<Vec<A>>(a + j, count) * load<Vec<A>>(b + j, count);
      });
    }
  });
}

void run(const ScaledRows& op) {
  by_type(op.y.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const int64_t d = op.x.cols();
    for (int64_t row = 0; row < op.x.shape[0]; ++row) {
      const A* const x = op.x.as<A>() + row * d;
      const A factor = op.factor.empty() ? A{1} : op.factor.as<A>()[row];
      map(d, op.y.as<T>() + row * op.y.stride[0], false,
          [=](int64_t j, int64_t count) { return load<Vec<A>>(x + j, count) * factor; });
    }
  });
}

}  // namespace frugal::FRUGAL_SIMD
