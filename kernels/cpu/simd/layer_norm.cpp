#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/row_sums.h"

namespace frugal::FRUGAL_SIMD {
namespace {

template <class T>
void forward_row(const LayerNorm& op, int64_t row) {
  using A = Accumulator<T>;
  const int64_t cols = op.x.cols(), ahead = next_row(op.x, row);
  const T* const x = op.x.as<T>() + row * cols;
  const T *const gamma = op.gamma.as<T>(), *const beta = op.beta.as<T>();
  T* const y = op.y.as<T>() + row * cols;
  const A mean =
      sum<A>(cols, [=](int64_t j, int64_t count) { return load<Vec<A>>(x + j, count); }) /
      static_cast<A>(cols);
  const A variance = sum<A>(cols,
                            [=](int64_t j, int64_t count) {
                              prefetch(x + ahead + j);
                              const auto d = fill_tail(load<Vec<A>>(x + j, count) - mean, count, 0);
                              return d * d;
                            }) /
                     static_cast<A>(cols);
  const A rstd = 1 / std::sqrt(variance + A(op.epsilon));
  const bool past = past_cache(op.y, op.x);
  map(cols, y, past, [=](int64_t j, int64_t count) {
    const auto normal = (load<Vec<A>>(x + j, count) - mean) * rstd;
    return normal * load<Vec<A>>(gamma + j, count) + load<Vec<A>>(beta + j, count);
  });
  op.mean.as<A>()[row] = mean;
  op.rstd.as<A>()[row] = rstd;
}

/// Adds the row's part of dgamma and dbeta to `partial` [2, cols].
template <class T, class A>
void backward_row(const LayerNormBackward& op, int64_t row, A* partial) {
  using V = Vec<A>;
  const int64_t cols = op.x.cols();
  const T* const x = op.x.as<T>() + row * cols;
  const T* const dy = op.dy.as<T>() + row * cols;
  const T* const add = op.add.empty() ? nullptr : op.add.as<T>() + row * cols;
  const T* const gamma = op.gamma.as<T>();
  T* const dx = op.dx.as<T>() + row * cols;
  const A mean = op.mean.as<A>()[row], rstd = op.rstd.as<A>()[row];
  V sum_g{}, sum_gn{};
  vectors<A>(cols, [&](int64_t j, int64_t count) {
    const V normal = (load<V>(x + j, count) - mean) * rstd;
    const V d = load<V>(dy + j, count);
    const V g = d * load<V>(gamma + j, count);  // 0 beyond the row
    sum_g += g;
    sum_gn += g * normal;
    store(partial + j, load<V>(partial + j, count) + d * normal, count);
    store(partial + cols + j, load<V>(partial + cols + j, count) + d, count);
  });
  const A mean_g = sum_lanes(sum_g) / static_cast<A>(cols);
  const A mean_gn = sum_lanes(sum_gn) / static_cast<A>(cols);
  const bool past = past_cache(op.dx, op.add);
  map(cols, dx, past, [&](int64_t j, int64_t count) {
    const V normal = (load<V>(x + j, count) - mean) * rstd;
    const V g = load<V>(dy + j, count) * load<V>(gamma + j, count);
    V d = (g - mean_g - normal * mean_gn) * rstd;
    if (add != nullptr) d += load<V>(add + j, count);
    return d;
  });
}

}  // namespace

void run(const LayerNorm& op) {
  by_type(op.x.type, [&]<class T>(T) {
    parallel(op.x.rows(), op.x.cols(), [&](int64_t row) { forward_row<T>(op, row); });
  });
}

void run(const LayerNormBackward& op) {
  by_type(op.x.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const int64_t cols = op.x.cols();
    RowSums<A> sums(1, op.x.rows(), 2 * cols);
    sums.each_row([&](int64_t row, A* partial) { backward_row<T>(op, row, partial); });
    sums.add_to(op.dgamma.as<A>(), 0, cols);
    sums.add_to(op.dbeta.as<A>(), cols, cols);
  });
}

}  // namespace frugal::FRUGAL_SIMD
