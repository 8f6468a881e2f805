#include <limits>

#include "kernels/cpu/simd/exponential.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

/// A row's maximum, the sum of its exponentials relative to it, and its label's logit.
template <class A>
struct RowStatistics {
  A most = -std::numeric_limits<A>::infinity(), total = 0, label = 0;

  A loss() const { return std::log(total) + most - label; }
};

/// `label` is a column, or lies outside the row.
template <class L, class A = Accumulator<L>>
RowStatistics<A> statistics_of(const View& logits, int64_t row, int64_t label) {
  using V = Vec<A>;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  constexpr int64_t piece = 4096;  // in the innermost cache between its two passes
  const int64_t cols = logits.cols(), ahead = std::min(next_row(logits, row), piece);
  const L* const x = logits.as<L>() + row * cols;
  A most = lowest, total = 0;
  // One pass over memory: what was summed so far is rescaled when a piece has a larger maximum.
  for (int64_t begin = 0; begin < cols; begin += piece) {
    const int64_t length = std::min(piece, cols - begin);
    const auto at = [&](int64_t j, int64_t count) {
      return fill_tail(load<V>(x + begin + j, count), count, lowest);
    };
    const auto larger = [](V a, V b) { return max(a, b); };
    const A before = most;
    most = std::max(most, max_lanes(reduce<A>(length, lowest, larger, at)));
    if (before != lowest) total *= std::exp(before - most);
    const A shift = most == lowest ? 0 : most;  // where all are −∞, their exponentials are 0
    total += sum<A>(length, [&](int64_t j, int64_t count) {
      prefetch(x + begin + ahead + j);
      return exp_for<A>(at(j, count) - shift);
    });
  }
  return {most, total, label >= 0 && label < cols ? A(x[label]) : 0};
}

template <class L>
void statistics_row(const CrossEntropyStatistics& op, int64_t row) {
  using A = Accumulator<L>;
  const auto of_row = statistics_of<L>(op.logits, row, op.labels.as<int32_t>()[row] - op.first);
  A* const statistics = op.statistics.as<A>() + 3 * row;
  statistics[0] = of_row.most;
  statistics[1] = of_row.total;
  statistics[2] = of_row.label;
}

/// Statistics of all shards: [shards, rows, 3].
template <class A>
RowStatistics<A> of_shards(const View& statistics, int64_t rows, int64_t row) {
  RowStatistics<A> whole;
  const int64_t shards = statistics.size() / (3 * rows);
  const A* const first = statistics.as<A>() + 3 * row;
  for (int64_t k = 0; k < shards; ++k) whole.most = std::max(whole.most, first[3 * rows * k]);
  for (int64_t k = 0; k < shards; ++k) {
    const A* const shard = first + 3 * rows * k;
    whole.total += shard[1] * std::exp(shard[0] - whole.most);
    whole.label += shard[2];
  }
  return whole;
}

template <class T, class L, class A>
void gradient_row(const CrossEntropy& op, int64_t row, const RowStatistics<A>& whole) {
  const int64_t cols = op.gradient.cols();
  const L* const x = op.logits.as<L>() + row * cols;
  T* const gradient = op.gradient.as<T>() + row * cols;
  const int32_t label = op.labels.as<int32_t>()[row];
  if (label == CrossEntropy::ignored_label) {
    std::fill_n(gradient, cols, T{});
    return;
  }
  const A scale = A(op.gradient_scale), factor = scale / whole.total;
  const int64_t own = label - op.first;
  const bool here = own >= 0 && own < cols;
  const A at_label = here ? A(x[own]) : 0;  // read before the gradient may overwrite it
  const A per_cap = op.softcap == 0 ? 0 : 1 / A(op.softcap);
  // d (cap · tanh(z / cap)) / dz of what the cap made: 1 − (x / cap)².
  const auto uncapped = [per_cap](auto gradient, auto x) {
    const auto t = x * per_cap;
    return per_cap == 0 ? gradient : gradient * (1 - t * t);
  };
  const bool past = past_cache(op.gradient, op.logits);
  map(cols, gradient, past, [&](int64_t j, int64_t count) {
    const auto v = load<Vec<A>>(x + j, count);
    return uncapped(exp_for<T>(v - whole.most) * factor, v);
  });
  if (here) {
    gradient[own] =
        T(uncapped((std::exp(at_label - whole.most) / whole.total - 1) * scale, at_label));
  }
}

template <class T, class L>
void row(const CrossEntropy& op, int64_t row) {
  using A = Accumulator<T>;
  const int32_t label = op.labels.as<int32_t>()[row];
  const auto whole = op.statistics.empty() ? statistics_of<L>(op.logits, row, label - op.first)
                                           : of_shards<A>(op.statistics, op.loss.size(), row);
  op.loss.as<A>()[row] = label == CrossEntropy::ignored_label ? 0 : whole.loss();
  if (!op.gradient.empty()) gradient_row<T, L>(op, row, whole);
}

}  // namespace

template <>
void run(const CrossEntropyStatistics& op) {
  by_type(op.logits.type, [&]<class L>(L) {
    parallel(op.logits.rows(), op.logits.cols(), [&](int64_t row) { statistics_row<L>(op, row); });
  });
}

template <>
void run(const CrossEntropy& op) {
  by_type(op.gradient.empty() ? op.loss.type : op.gradient.type, [&]<class T>(T) {
    const auto rows = [&]<class L>(L) {
      parallel(op.loss.size(), std::max<int64_t>(1, op.gradient.cols()),
               [&](int64_t i) { row<T, L>(op, i); });
    };
    if (op.logits.type == op.loss.type)
      rows(Accumulator<T>{});
    else
      rows(T{});
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
