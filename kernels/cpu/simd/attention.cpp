#include <limits>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/keep.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// Columns of a block that a row sees, from the first that is computed: whole vectors of them.
struct Columns {
  int64_t first, computed;  ///< of the block's columns
  int64_t begin, end;       ///< of those computed, what the row sees

  /// x, the columns from j on, with `fill` where the row does not see them.
  template <class V>
  V seen(V x, int64_t j, ElementOf<V> fill) const {
    return fill_tail(fill_head(x, begin - j, fill), end - j, fill);
  }
};
template <class A>
Columns columns(const ScoreBlock& block, int64_t row) {
  const int64_t begin = block.begin(row), end = std::max(begin, block.end(row));
  const int64_t first = begin / lanes<A> * lanes<A>;
  const int64_t computed = (end - first + lanes<A> - 1) / lanes<A> * lanes<A>;
  return {first, begin == end ? 0 : std::min(block.cols - first, computed), begin - first,
          end - first};
}

/// f(first column, columns, their dropout decisions or null) for each segment of those computed.
template <class F>
void decided_segments(const ScoreBlock& block, int64_t row, const Columns& c, const F& f) {
  segments(c.computed, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const int64_t element = block.element + row * block.elements_per_row + c.first + begin;
    f(begin, length, keep_of({}, block.dropout, element, length, buffer));
  });
}

/// Zeros where nothing is computed.
template <class T>
void zero_around(T* row, const Columns& c, int64_t cols) {
  using A = Accumulator<T>;
  const auto zero = [row](int64_t begin, int64_t end) {
    vectors<A>(end - begin,
               [=](int64_t j, int64_t count) { store(row + begin + j, Vec<A>{}, count); });
  };
  zero(0, c.first);
  zero(c.first + c.computed, cols);
}

/// f(scale · score).
template <class T, bool capped>
struct ScaledScore {
  using A = Accumulator<T>;
  A scale, cap, per_cap;

  explicit ScaledScore(const ScoreBlock& block)
      : scale(A(block.scale)), cap(A(block.softcap)), per_cap(1 / cap) {}
  template <class V>
  V operator()(V score) const {
    if constexpr (capped)
      return tanh_for<T>(score * (scale * per_cap)) * cap;
    else
      return score * scale;
  }
  /// Derivative by the score, from the function's value.
  template <class V>
  V slope(V value) const {
    if constexpr (capped)
      return (1 - (value * per_cap) * (value * per_cap)) * scale;
    else
      return broadcast<V>(scale);
  }
};

template <class T, bool capped>
void softmax_row(const OnlineSoftmax& op, int64_t row) {
  using A = Accumulator<T>;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  const ScoreBlock& block = op.block;
  const Columns c = columns<A>(block, row);
  const int64_t d = op.y.cols(), first = row * block.cols + c.first;
  A* const x = op.scores.as<A>() + first;
  T* const p = op.p.as<T>() + first;
  zero_around(op.p.as<T>() + row * block.cols, c, block.cols);
  if (c.computed == 0) return;
  const ScaledScore<T, capped> scaled(block);
  const A keep_scale = A(block.dropout.keep_scale());
  const auto larger = [](auto a, auto b) { return max(a, b); };
  const A before = op.largest.as<A>()[row];
  const A largest = std::max(
      before, max_lanes(reduce<A>(c.computed, lowest, larger, [=](int64_t j, int64_t count) {
        const auto score = scaled(load<Vec<A>>(x + j, count));
        if constexpr (capped) store(x + j, score, count);
        return c.seen(score, j, lowest);
      })));
  A total = 0;
  decided_segments(block, row, c, [&](int64_t begin, int64_t length, const uint8_t* keep) {
    total += sum<A>(length, [&](int64_t j, int64_t count) {
      auto score = load<Vec<A>>(x + begin + j, count);
      if constexpr (!capped) score = scaled(score);
      const auto e = c.seen(exp_for<T>(score - largest), begin + j, 0);
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

template <class T, bool capped>
void gradient_row(const ScoreGradient& op, int64_t row) {
  using A = Accumulator<T>;
  const ScoreBlock& block = op.block;
  const Columns c = columns<A>(block, row);
  const int64_t begin_of_row = row * block.cols, first = begin_of_row + c.first;
  const A* const x = op.scores.as<A>() + first;
  const A* const dp = op.dp.as<A>() + first;
  T* const dropped = op.dropped.as<T>() + first;
  T* const dx = op.dscores.as<T>() + first;
  const ScaledScore<T, capped> scaled(block);
  const A keep_scale = A(block.dropout.keep_scale());
  const A log_sum_exp = op.log_sum_exp.as<A>()[row], dot = op.dots.as<A>()[row];
  decided_segments(block, row, c, [&](int64_t begin, int64_t length, const uint8_t* keep) {
    vectors<A>(length, [&](int64_t j, int64_t count) {
      const int64_t at = begin + j;
      const auto score = scaled(load<Vec<A>>(x + at, count));
      const auto p = c.seen(exp_for<T>(score - log_sum_exp), at, 0);
      const auto through = apply_keep(load<Vec<A>>(dp + at, count), keep, j, count, keep_scale);
      store(dropped + at, apply_keep(p, keep, j, count, keep_scale), count);
      store(dx + at, c.seen(p * (through - dot) * scaled.slope(score), at, 0), count);
    });
  });
  zero_around(op.dropped.as<T>() + begin_of_row, c, block.cols);
  zero_around(op.dscores.as<T>() + begin_of_row, c, block.cols);
}

/// f(row, whether there is a softcap) for all rows of a block.
template <class F>
void each_row(const ScoreBlock& block, const F& f) {
  for (int64_t row = 0; row < block.rows; ++row)
    block.softcap == 0 ? f(row, std::false_type{}) : f(row, std::true_type{});
}

}  // namespace

template <>
void run(const OnlineSoftmax& op) {
  by_type(op.block.type, [&]<class T>(T) {
    each_row(op.block,
             [&]<class Capped>(int64_t row, Capped) { softmax_row<T, Capped::value>(op, row); });
  });
}

template <>
void run(const ScoreGradient& op) {
  by_type(op.block.type, [&]<class T>(T) {
    each_row(op.block,
             [&]<class Capped>(int64_t row, Capped) { gradient_row<T, Capped::value>(op, row); });
  });
}

template <>
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

template <>
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

}  // namespace frugal::kernels::FRUGAL_SIMD
