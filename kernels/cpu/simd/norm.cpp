#include "kernels/cpu/simd/row_sums.h"

// LayerNorm and RmsNorm: the latter is the former without a mean and without beta.
namespace frugal::kernels::FRUGAL_SIMD {

namespace {

/// True for an operation that subtracts the mean of a row.
template <class Op>
constexpr bool centred = requires(const Op& op) {
  op.mean;
};

/// Factor of the normalized values.
template <class A, class Op, class T>
Vec<A> gain(const Op& op, const T* gamma, int64_t j, int64_t count) {
  const auto stored = load<Vec<A>>(gamma + j, count);
  if constexpr (centred<Op>)
    return stored;
  else
    return stored + A(op.offset);
}

template <class T, class Op>
void norm_row(const Op& op, int64_t row) {
  using A = Accumulator<T>;
  const int64_t cols = op.x.cols(), ahead = next_row(op.x, row);
  const T* const x = op.x.template as<T>() + row * cols;
  const T *const gamma = op.gamma.template as<T>(), *beta = nullptr;
  T* const y = op.y.template as<T>() + row * cols;
  A mean = 0;
  if constexpr (centred<Op>) {
    beta = op.beta.template as<T>();
    mean = sum<A>(cols, [=](int64_t j, int64_t count) { return load<Vec<A>>(x + j, count); }) /
           static_cast<A>(cols);
    op.mean.template as<A>()[row] = mean;
  }
  const A variance = sum<A>(cols,
                            [=](int64_t j, int64_t count) {
                              prefetch(x + ahead + j);
                              const auto d = fill_tail(load<Vec<A>>(x + j, count) - mean, count, 0);
                              return d * d;
                            }) /
                     static_cast<A>(cols);
  const A rstd = 1 / std::sqrt(variance + A(op.epsilon));
  const bool past = past_cache(op.y, op.x);
  map(cols, y, past, [=, &op](int64_t j, int64_t count) {
    const auto scaled = (load<Vec<A>>(x + j, count) - mean) * rstd * gain<A>(op, gamma, j, count);
    if constexpr (centred<Op>)
      return scaled + load<Vec<A>>(beta + j, count);
    else
      return scaled;
  });
  op.rstd.template as<A>()[row] = rstd;
}

/// Adds the row's part of dgamma, and of dbeta, to `partial` [2 or 1, cols].
template <class T, class Op, class A>
void norm_backward_row(const Op& op, int64_t row, A* partial) {
  using V = Vec<A>;
  const int64_t cols = op.x.cols();
  const T* const x = op.x.template as<T>() + row * cols;
  const T* const dy = op.dy.template as<T>() + row * cols;
  const T* const add = op.add.empty() ? nullptr : op.add.template as<T>() + row * cols;
  const T* const gamma = op.gamma.template as<T>();
  T* const dx = op.dx.template as<T>() + row * cols;
  const A rstd = op.rstd.template as<A>()[row];
  A mean = 0;
  if constexpr (centred<Op>) mean = op.mean.template as<A>()[row];
  V sum_g{}, sum_gn{};
  vectors<A>(cols, [&](int64_t j, int64_t count) {
    const V normal = (load<V>(x + j, count) - mean) * rstd;
    const V d = load<V>(dy + j, count);
    const V g = d * gain<A>(op, gamma, j, count);  // 0 beyond the row
    sum_gn += g * normal;
    store(partial + j, load<V>(partial + j, count) + d * normal, count);
    if constexpr (centred<Op>) {
      sum_g += g;
      store(partial + cols + j, load<V>(partial + cols + j, count) + d, count);
    }
  });
  const A mean_g = sum_lanes(sum_g) / static_cast<A>(cols);  // 0 where nothing is centred
  const A mean_gn = sum_lanes(sum_gn) / static_cast<A>(cols);
  const bool past = past_cache(op.dx, op.add);
  map(cols, dx, past, [&](int64_t j, int64_t count) {
    const V normal = (load<V>(x + j, count) - mean) * rstd;
    const V g = load<V>(dy + j, count) * gain<A>(op, gamma, j, count);
    V d = (g - mean_g - normal * mean_gn) * rstd;
    if (add != nullptr) d += load<V>(add + j, count);
    return d;
  });
}

template <class Op>
void run_norm(const Op& op) {
  by_type(op.x.type, [&]<class T>(T) {
    parallel(op.x.rows(), op.x.cols(), [&](int64_t row) { norm_row<T>(op, row); });
  });
}

template <class Op>
void run_norm_backward(const Op& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const int64_t cols = op.x.cols();
    RowSums<A> sums(1, op.x.rows(), (centred<Op> ? 2 : 1) * cols);
    sums.each_row([&](int64_t row, A* partial) { norm_backward_row<T>(op, row, partial); });
    sums.add_to(op.dgamma, 0, cols);
    if constexpr (centred<Op>) sums.add_to(op.dbeta, cols, cols);
  });
}

}  // namespace

template <>
void run(const LayerNorm& op) {
  run_norm(op);
}
template <>
void run(const LayerNormBackward& op) {
  run_norm_backward(op);
}
template <>
void run(const RmsNorm& op) {
  run_norm(op);
}
template <>
void run(const RmsNormBackward& op) {
  run_norm_backward(op);
}

}  // namespace frugal::kernels::FRUGAL_SIMD
