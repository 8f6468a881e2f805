#include "kernels/cpu/simd/keep.h"
#include "kernels/cpu/simd/row_sums.h"

namespace frugal::kernels::FRUGAL_SIMD {
namespace {

template <class T>
void forward_row(const BiasDropoutAdd& op, int64_t row) {
  using A = Accumulator<T>;
  using V = Vec<A>;
  const int64_t cols = op.x.cols(), first = row * cols;
  const T* const x = op.x.as<T>() + first;
  const T* const residual = op.residual.empty() ? nullptr : op.residual.as<T>() + first;
  const T* bias = nullptr;
  if (!op.bias.empty()) {
    bias = op.bias.as<T>() + row / (op.x.rows() / op.bias.rows()) * cols;
  }
  T* const y = op.y.as<T>() + first;
  const A keep_scale = A(op.dropout.keep_scale());
  const bool past = past_cache(op.y, op.x);
  segments(cols, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const uint8_t* const keep = decide_keep(op.mask, op.dropout, first + begin, length, buffer);
    map(length, y + begin, past, [&](int64_t k, int64_t count) {
      const int64_t j = begin + k;
      V v = load<V>(x + j, count);
      if (bias != nullptr) v += load<V>(bias + j, count);
      v = apply_keep(v, keep, k, count, keep_scale);
      if (residual != nullptr) v += load<V>(residual + j, count);
      return v;
    });
  });
}

/// Adds the row to `partial` [cols], or to nothing where that is null.
template <class T, class A>
void backward_row(const BiasDropoutAddBackward& op, int64_t row, A* partial) {
  using V = Vec<A>;
  const int64_t cols = op.dy.cols(), first = row * cols;
  const T* const dy = op.dy.as<T>() + first;
  T* const dx = op.dx.as<T>() + first;
  const A keep_scale = A(op.dropout.keep_scale());
  const bool past = past_cache(op.dx, op.dy);
  segments(cols, [&](int64_t begin, int64_t length) {
    uint8_t buffer[segment];
    const uint8_t* const keep = keep_of(op.mask, op.dropout, first + begin, length, buffer);
    const auto value = [=](int64_t j, int64_t count) {
      return apply_keep(load<V>(dy + begin + j, count), keep, j, count, keep_scale);
    };
    if (partial == nullptr) return map(length, dx + begin, past, value);
    vectors<A>(length, [=](int64_t j, int64_t count) {
      const V v = value(j, count);
      store(dx + begin + j, v, count, past);  // before the sum: measured faster out of cache
      A* const to = partial + begin + j;
      store(to, load<V>(to, count) + v, count);
    });
  });
}

/// Adds rows [rows, cols] to `partial` [cols], and fetches what is `ahead` elements further.
template <int rows, class T, class A>
void add_rows(const T* from, int64_t cols, int64_t ahead, A* partial) {
  vectors<A>(cols, [=](int64_t j, int64_t count) {
    auto total = load<Vec<A>>(partial + j, count);
    for (int i = 0; i < rows; ++i) {
      const T* const at = from + i * cols + j;
      prefetch(at + ahead);
      total += load<Vec<A>>(at, count);
    }
    store(partial + j, total, count);
  });
}

}  // namespace

template <>
void run(const BiasDropoutAdd& op) {
  by_type(op.x.type, [&]<class T>(T) {
    parallel(op.x.rows(), op.x.cols(), [&](int64_t row) { forward_row<T>(op, row); });
  });
}

template <>
void run(const BiasDropoutAddBackward& op) {
  by_type(op.dy.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const int64_t rows = op.dy.rows(), cols = op.dy.cols();
    if (op.dbias.empty()) {
      parallel(rows, cols, [&](int64_t row) { backward_row<T, A>(op, row, nullptr); });
      return;
    }
    RowSums<A> sums(op.dbias.rows(), rows, cols);
    sums.each_row([&](int64_t row, A* partial) { backward_row<T>(op, row, partial); });
    sums.add_to(op.dbias, 0, cols);
  });
}

template <>
void run(const ColumnSum& op) {
  by_type(op.x.type, [&]<class T>(T) {
    const int64_t cols = op.x.cols();
    RowSums<Accumulator<T>> sums(1, op.x.rows(), cols);
    sums.each_rows([&](int64_t first, int64_t rows, Accumulator<T>* partial) {
      constexpr int64_t together = 8;  // so that reading and writing partial sums costs little
      const T* from = op.x.as<T>() + first * cols;
      for (; rows >= together; rows -= together, from += together * cols) {
        add_rows<together>(from, cols, rows >= 2 * together ? together * cols : 0, partial);
      }
      for (; rows > 0; --rows, from += cols) add_rows<1>(from, cols, 0, partial);
    });
    sums.add_to(op.sum, 0, cols);
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
