#include "kernels/cuda/ops/exponential.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/rows.cuh"

namespace frugal::cuda {
namespace {

/// Packs that a thread reads before it uses the first: with 512 threads, 64 KiB are on their way.
constexpr int at_a_time = 4;

/// Threads of the block that has a row.
int threads_for(int64_t cols) {
  const int64_t all = (cols + pack - 1) / pack;
  return std::min(team_size(all, at_a_time), row_threads);
}

/// f(j, count, x) for this thread's packs of a row, of which it has several at a time. `otherwise`
/// stands beyond the row's end. prepare() comes before the first f(), while the first packs are on
/// their way.
template <bool wide, class A, class Prepare, class F>
__device__ inline void each_of_row(const A* row, int64_t cols, A otherwise, const Prepare& prepare,
                                   const F& f) {
  const int64_t stride = int64_t{blockDim.x} * pack;
  for (int64_t begin = int64_t{threadIdx.x} * pack; begin < cols; begin += at_a_time * stride) {
    A x[at_a_time][pack];
#pragma unroll
    for (int k = 0; k < at_a_time; ++k) {
      const int64_t j = begin + k * stride;
      if (j < cols) load<wide>(row + j, cols - j, x[k], otherwise);
    }
    if (begin < stride) prepare();
#pragma unroll
    for (int k = 0; k < at_a_time; ++k) {
      const int64_t j = begin + k * stride;
      if (j < cols) f(j, cols - j, x[k]);
    }
  }
}

/// What a row's exponents are taken relative to: its maximum, but where all are −∞ the exponentials
/// are 0.
template <class A>
__device__ inline A shift_for(A most) {
  return most == lowest<A>() ? A{0} : most;
}

/// In one pass: what was summed so far is rescaled when a pack has a larger maximum.
template <bool wide, class A>
__global__ void __launch_bounds__(row_threads)
    statistics(const A* logits, const int32_t* labels, A* to, int64_t cols, int64_t first) {
  const int64_t row = blockIdx.x;
  const A* const x = logits + row * cols;
  A most = lowest<A>(), total = 0;
  each_of_row<wide>(
      x, cols, lowest<A>(), [] {},
      [&](int64_t, int64_t, const A(&v)[pack]) {
        const A before = most;
#pragma unroll
        for (const auto& e : v) most = Maximum{}(most, e);
        const A shift = shift_for(most);
        total *= exp(before - shift);
#pragma unroll
        for (const auto& e : v) total += exp(e - shift);
      });
  const A of_row = reduce_block(most, lowest<A>(), Maximum{});
  total = sum_block(total * exp(most - shift_for(of_row)));
  if (threadIdx.x != 0) return;
  const int64_t label = labels[row] - first;
  to[3 * row] = of_row;
  to[3 * row + 1] = total;
  to[3 * row + 2] = label >= 0 && label < cols ? x[label] : A{0};
}

/// The statistics of a row of all shards.
template <class A>
struct Shards {
  const A* statistics;  // [shards, rows, 3]
  const int32_t* labels;
  A* loss;
  int64_t shards, rows;
};
template <class A>
struct WholeRow {
  A most = lowest<A>(), total = 0, label = 0;

  WholeRow() = default;
  __device__ WholeRow(const Shards<A>& of, int64_t row) {
    const A* const first = of.statistics + 3 * row;
    for (int64_t k = 0; k < of.shards; ++k) most = Maximum{}(most, first[3 * of.rows * k]);
    for (int64_t k = 0; k < of.shards; ++k) {
      const A* const shard = first + 3 * of.rows * k;
      total += shard[1] * exp(shard[0] - most);
      label += shard[2];
    }
  }
  __device__ A loss() const { return log(total) + most - label; }
};

template <class A>
__global__ void losses(Shards<A> of) {
  const int64_t row = grid_thread();
  if (row >= of.rows) return;
  const bool ignored = of.labels[row] == CrossEntropy::ignored_label;
  of.loss[row] = ignored ? A{0} : WholeRow<A>(of, row).loss();
}

/// The loss as well. Every thread reads what it then overwrites, where gradients replace logits.
/// With a softcap c a gradient is multiplied by 1 − (x / c)², as (c − x) (c + x) / c²: without
/// cancelling.
template <bool wide, bool capped, class T, class A>
__global__ void __launch_bounds__(row_threads, sizeof(A) == 4 ? 2 : 1)
    gradients(Shards<A> of, const A* logits, T* to, int64_t cols, int64_t first, A scale,
              A softcap) {
  const int64_t row = blockIdx.x;
  const int32_t label = of.labels[row];
  T* const gradient = to + row * cols;
  if (label == CrossEntropy::ignored_label) {
    if (threadIdx.x == 0) of.loss[row] = 0;
    for (int64_t j = int64_t{threadIdx.x} * pack; j < cols; j += int64_t{blockDim.x} * pack)
      store<wide>(gradient + j, cols - j, {A{0}, A{0}, A{0}, A{0}, A{0}, A{0}, A{0}, A{0}});
    return;
  }
  const int64_t own = label - first;
  WholeRow<A> whole;
  A factor = 0;
  const auto prepare = [&] {
    whole = WholeRow<A>(of, row);
    factor = scale / whole.total;
    if (threadIdx.x == 0) of.loss[row] = whole.loss();
  };
  const A per_square = capped ? 1 / (softcap * softcap) : A{0};
  const auto slope = [&](A logit) { return (softcap - logit) * (softcap + logit) * per_square; };
  const auto of_logit = [&](A logit, bool labelled) {
    const A e = exp(logit - whole.most);
    // Without cancelling more than there is to cancel.
    const A g = labelled ? (e / whole.total - 1) * scale : e * factor;
    return capped ? g * slope(logit) : g;
  };
  const A* const x = logits + row * cols;
  each_of_row<wide>(x, cols, A{0}, prepare, [&](int64_t j, int64_t count, A(&v)[pack]) {
    const int64_t hit = own - j;
    if (hit >= 0 && hit < pack) {
#pragma unroll
      for (int e = 0; e < pack; ++e) v[e] = of_logit(v[e], e == hit);
    } else {
#pragma unroll
      for (auto& e : v) e = of_logit(e, false);
    }
    store<wide>(gradient + j, count, v);
  });
}

}  // namespace

void run(const CrossEntropyStatistics& op, const Launch& on) {
  const int64_t cols = op.logits.cols();
  dispatch(op.logits.type, all_wide(cols, op.logits), [&]<class T, class Wide>(T, Wide) {
    using A = Accumulator<T>;
    launch(on, statistics<Wide::value, A>, op.logits.rows(), threads_for(cols), op.logits.as<A>(),
           op.labels.as<int32_t>(), op.statistics.as<A>(), cols, op.first);
  });
}

void run(const CrossEntropy& op, const Launch& on) {
  const bool loss_only = op.gradient.empty();
  const int64_t rows = op.loss.size(), cols = op.gradient.cols();
  const bool wide = !loss_only && all_wide(cols, op.logits, op.gradient);
  const DType type = loss_only ? op.loss.type : op.gradient.type;
  dispatch(type, wide, [&]<class T, class Wide>(T, Wide) {
    using A = Accumulator<T>;
    const Shards<A> of{op.statistics.as<A>(), op.labels.as<int32_t>(), op.loss.as<A>(),
                       rows == 0 ? 0 : op.statistics.size() / (3 * rows), rows};
    if (loss_only) {
      constexpr int threads = 128;
      launch(on, losses<A>, (rows + threads - 1) / threads, threads, of);
    } else {
      const A scale{op.gradient_scale}, softcap{op.softcap};
      const auto kernel = op.softcap == 0 ? gradients<Wide::value, false, T, A>
                                          : gradients<Wide::value, true, T, A>;
      launch(on, kernel, rows, threads_for(cols), of, op.logits.as<A>(), op.gradient.as<T>(), cols,
             op.first, scale, softcap);
    }
  });
}

}  // namespace frugal::cuda
