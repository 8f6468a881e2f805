#include "kernels/cuda/ops/exponential.cuh"
#include "kernels/cuda/ops/kernels.h"
#include "kernels/cuda/ops/rows.cuh"
#include "kernels/cuda/ops/shared.cuh"

namespace frugal::kernels::cuda {
namespace {

/// Packs that a thread reads before it uses the first: with 512 threads 64 KiB, or of 16 bits 32,
/// are on their way. More of float64 would not fit the registers; of what a block holds itself,
/// fewer do.
template <class L>
constexpr int from_memory = sizeof(L) == 8 ? 1 : 4;
template <class L>
constexpr int from_shared = (from_memory<L> + 1) / 2;

/// Threads of the block that has a row.
int threads_for(int64_t cols) {
  const int64_t all = (cols + pack - 1) / pack;
  return std::min(team_size(all, from_memory<float>), row_threads);
}

/// f(j, count, x, raw) for this thread's packs of a row, of which it has several at a time, each as
/// numbers and as it lies in memory. `otherwise` stands beyond the row's end. prepare() comes
/// before the first f(), while the first packs are on their way.
template <bool wide, int at_a_time, class L, class A, class Prepare, class F>
__device__ inline void each_of_row(const L* row, int64_t cols, A otherwise, const Prepare& prepare,
                                   const F& f) {
  const int64_t stride = int64_t{blockDim.x} * pack;
  for (int64_t begin = int64_t{threadIdx.x} * pack; begin < cols; begin += at_a_time * stride) {
    Packed<L> raw[at_a_time];
#pragma unroll
    for (int k = 0; k < at_a_time; ++k) {
      const int64_t j = begin + k * stride;
      if (j < cols) raw[k] = fetch<wide>(row + j, cols - j);
    }
    if (begin < stride) prepare();
#pragma unroll
    for (int k = 0; k < at_a_time; ++k) {
      const int64_t j = begin + k * stride;
      if (j >= cols) continue;
      A x[pack];
      raw[k].get(x);
      if constexpr (!wide) fill_tail(x, cols - j, otherwise);
      f(j, cols - j, x, raw[k]);
    }
  }
}

/// Maximum that a row's exponents are relative to; where all are −∞ the exponentials are 0.
template <class A>
__device__ inline A shift_for(A most) {
  return most == lowest<A>() ? A{0} : most;
}

/// A row's maximum, the sum of its exponentials relative to it, and its label's logit.
template <class A>
struct RowStatistics {
  A most = lowest<A>(), total = 0, label = 0;

  __device__ A loss() const { return log(total) + most - label; }
};

/// The logit of a column, or 0 where it lies outside the row.
template <class A, class L>
__device__ inline A logit_of(const L* row, int64_t cols, int64_t label) {
  return label >= 0 && label < cols ? A(to_wide(row[label])) : A{0};
}

/// Sums in one pass: a pack with a larger maximum rescales the sum so far. `held`, shared memory of
/// whole packs where it is not null, gets a copy of this thread's. Every thread has the result.
template <bool wide, class L, class A = Accumulator<L>>
__device__ inline RowStatistics<A> statistics_of(const L* row, int64_t cols, int64_t label,
                                                 L* held) {
  A most = lowest<A>(), total = 0;
  // Read by all before any is overwritten: the reductions wait for every thread.
  const A chosen = logit_of<A>(row, cols, label);
  each_of_row<wide, from_memory<L>>(
      row, cols, lowest<A>(), [] {},
      [&](int64_t j, int64_t, const A(&v)[pack], const Packed<L>& raw) {
        if (held != nullptr) raw.write(held + j);
        const A before = most;
#pragma unroll
        for (const auto& e : v) most = Maximum{}(most, e);
        const A shift = shift_for(most);
        total *= exp(before - shift);
#pragma unroll
        for (const auto& e : v) total += exp(e - shift);
      });
  const A of_row = reduce_block(most, lowest<A>(), Maximum{});
  return {of_row, sum_block(total * exp(most - shift_for(of_row))), chosen};
}

template <bool wide, class L, class A>
__global__ void __launch_bounds__(row_threads)
    statistics(const L* logits, const int32_t* labels, A* to, int64_t cols, int64_t first) {
  const int64_t row = blockIdx.x;
  L* const not_held = nullptr;
  const auto of_row = statistics_of<wide>(logits + row * cols, cols, labels[row] - first, not_held);
  if (threadIdx.x != 0) return;
  to[3 * row] = of_row.most;
  to[3 * row + 1] = of_row.total;
  to[3 * row + 2] = of_row.label;
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
__device__ inline RowStatistics<A> whole_row(const Shards<A>& of, int64_t row) {
  RowStatistics<A> whole;
  const A* const first = of.statistics + 3 * row;
  for (int64_t k = 0; k < of.shards; ++k)
    whole.most = Maximum{}(whole.most, first[3 * of.rows * k]);
  for (int64_t k = 0; k < of.shards; ++k) {
    const A* const shard = first + 3 * of.rows * k;
    whole.total += shard[1] * exp(shard[0] - whole.most);
    whole.label += shard[2];
  }
  return whole;
}

template <class A>
__global__ void losses(Shards<A> of) {
  const int64_t row = grid_thread();
  if (row >= of.rows) return;
  const bool ignored = of.labels[row] == CrossEntropy::ignored_label;
  of.loss[row] = ignored ? A{0} : whole_row(of, row).loss();
}

template <class A>
struct Scales {
  A gradient, softcap;
};

/// Blocks that a multiprocessor has at least, where it counts.
template <bool wide, class A>
inline constexpr int blocks_with = wide && sizeof(A) == 4 ? 2 : 1;

template <bool wide, class T>
__device__ inline void clear_row(T* row, int64_t cols) {
  using A = Accumulator<T>;
  for (int64_t j = int64_t{threadIdx.x} * pack; j < cols; j += int64_t{blockDim.x} * pack)
    store<wide>(row + j, cols - j, {A{0}, A{0}, A{0}, A{0}, A{0}, A{0}, A{0}, A{0}});
}

/// Every thread reads what it then overwrites, where the gradient replaces the logits. get() gives
/// the row's statistics once its first packs are on their way; `own` is the label's column. With a
/// softcap c a gradient is multiplied by 1 − (x / c)², as (c − x) (c + x) / c²: without cancelling.
template <bool wide, bool capped, int at_a_time, class L, class T, class A, class Get>
__device__ inline void write_gradient(const L* x, T* gradient, int64_t cols, int64_t own,
                                      const Scales<A>& scales, const Get& get) {
  RowStatistics<A> whole;
  A factor = 0;
  const auto prepare = [&] {
    whole = get();
    factor = scales.gradient / whole.total;
  };
  const A c = scales.softcap, per_square = capped ? 1 / (c * c) : A{0};
  const auto of_logit = [&](A logit, bool labelled) {
    const A e = exp(logit - whole.most);
    // Without cancelling more than there is to cancel.
    const A g = labelled ? (e / whole.total - 1) * scales.gradient : e * factor;
    return capped ? g * ((c - logit) * (c + logit) * per_square) : g;
  };
  each_of_row<wide, at_a_time>(x, cols, A{0}, prepare,
                               [&](int64_t j, int64_t count, A(&v)[pack], const Packed<L>&) {
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

/// The loss as well.
template <bool wide, bool capped, class L, class T, class A>
__global__ void __launch_bounds__(row_threads, blocks_with<wide, A>)
    gradients(Shards<A> of, const L* logits, T* to, int64_t cols, int64_t first, Scales<A> scales) {
  const int64_t row = blockIdx.x;
  const int32_t label = of.labels[row];
  if (label == CrossEntropy::ignored_label) {
    if (threadIdx.x == 0) of.loss[row] = 0;
    return clear_row<wide>(to + row * cols, cols);
  }
  write_gradient<wide, capped, from_memory<L>>(logits + row * cols, to + row * cols, cols,
                                               label - first, scales, [&] {
                                                 const auto whole = whole_row(of, row);
                                                 if (threadIdx.x == 0) of.loss[row] = whole.loss();
                                                 return whole;
                                               });
}

/// The statistics as well, of rows that a block holds in shared memory between their two uses, or
/// where they are longer reads twice.
template <bool wide, bool capped, class L, class T, class A>
__global__ void __launch_bounds__(row_threads, blocks_with<wide, A>)
    in_one_pass(Shards<A> of, const L* logits, T* to, int64_t cols, int64_t first, Scales<A> scales,
                bool hold) {
  const int64_t row = blockIdx.x;
  const int32_t label = of.labels[row];
  if (label == CrossEntropy::ignored_label) {
    if (threadIdx.x == 0) of.loss[row] = 0;
    return clear_row<wide>(to + row * cols, cols);
  }
  const int64_t own = label - first;
  const L* const x = logits + row * cols;
  L* const held = hold ? dynamic_shared<L>() : nullptr;
  const auto whole = statistics_of<wide>(x, cols, own, held);
  if (threadIdx.x == 0) of.loss[row] = whole.loss();
  // Each thread reads again what it has held itself.
  write_gradient<wide, capped, from_shared<L>>(hold ? static_cast<const L*>(held) : x,
                                               to + row * cols, cols, own, scales,
                                               [&] { return whole; });
}

/// Shared memory that holds a row, or 0 where a block cannot have so much.
template <class L>
size_t bytes_of_row(const Launch& on, int64_t cols) {
  constexpr size_t of_reductions = 1024;  // and more
  const size_t bytes = static_cast<size_t>((cols + pack - 1) / pack * pack) * sizeof(L);
  return bytes + of_reductions <= on.shared_memory ? bytes : 0;
}

template <bool wide, bool capped, class T, class L>
void run_with_gradient(const CrossEntropy& op, const Shards<Accumulator<T>>& of, const Launch& on) {
  using A = Accumulator<T>;
  const Scales<A> scales{A(op.gradient_scale), A(op.softcap)};
  const int64_t cols = op.gradient.cols();
  const int threads = threads_for(cols);
  const auto* const logits = op.logits.as<L>();
  if (op.statistics.empty()) {
    const size_t held = bytes_of_row<L>(on, cols);
    launch_with_shared(on, in_one_pass<wide, capped, L, T, A>, of.rows, threads, held, of, logits,
                       op.gradient.as<T>(), cols, op.first, scales, held > 0);
  } else {
    launch(on, gradients<wide, capped, L, T, A>, of.rows, threads, of, logits, op.gradient.as<T>(),
           cols, op.first, scales);
  }
}

}  // namespace

template <>
void run(const CrossEntropyStatistics& op, const Launch& on) {
  const int64_t cols = op.logits.cols();
  dispatch(op.logits.type, all_wide(cols, op.logits), [&]<class L, class Wide>(L, Wide) {
    using A = Accumulator<L>;
    launch(on, statistics<Wide::value, L, A>, op.logits.rows(), threads_for(cols),
           op.logits.as<L>(), op.labels.as<int32_t>(), op.statistics.as<A>(), cols, op.first);
  });
}

template <>
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
      return;
    }
    dispatch_either<T>(op.logits.type, [&]<class L>(L) {
      if (op.softcap == 0)
        run_with_gradient<Wide::value, false, T, L>(op, of, on);
      else
        run_with_gradient<Wide::value, true, T, L>(op, of, on);
    });
  });
}

}  // namespace frugal::kernels::cuda
