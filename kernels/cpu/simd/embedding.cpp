#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {

namespace {

/// Rows that are copied as they are, whatever their type.
void copy_rows(const Embedding& op) {
  const auto bytes = static_cast<size_t>(op.table.cols() * size_of(op.table.type));
  const auto* const ids = op.ids.as<int32_t>();
  const auto* const table = static_cast<const char*>(op.table.data);
  auto* const y = static_cast<char*>(op.y.data);
  const int64_t vocabulary = op.table.rows();
  parallel(op.ids.size(), op.table.cols(), [&](int64_t i) {
    char* const to = y + static_cast<size_t>(i) * bytes;
    const int64_t id = ids[i] - op.first;
    if (id >= 0 && id < vocabulary) {
      std::memcpy(to, table + static_cast<size_t>(id) * bytes, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
  });
}

void scale_rows(const Embedding& op) {
  by_type(op.table.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* const ids = op.ids.as<int32_t>();
    const int64_t cols = op.table.cols(), vocabulary = op.table.rows();
    parallel(op.ids.size(), cols, [&](int64_t i) {
      T* const to = op.y.as<T>() + i * cols;
      const int64_t id = ids[i] - op.first;
      if (id < 0 || id >= vocabulary) {
        std::fill_n(to, cols, T{});
        return;
      }
      const T* const from = op.table.as<T>() + id * cols;
      map(cols, to, false, [=, scale = A(op.scale)](int64_t j, int64_t count) {
        return load<Vec<A>>(from + j, count) * scale;
      });
    });
  });
}

}  // namespace

void run(const Embedding& op) { op.scale == 1 ? copy_rows(op) : scale_rows(op); }

void run(const EmbeddingBackward& op) {
  by_type(op.dy.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* const ids = op.ids.as<int32_t>();
    const T* const dy = op.dy.as<T>();
    A* const dtable = op.dtable.as<A>();
    const int64_t rows = op.ids.size(), cols = op.dy.cols(), vocabulary = op.dtable.rows();
    const A scale = A(op.scale);
    constexpr int64_t block = 512;  // columns: two threads never add to the same element
    parallel((cols + block - 1) / block, rows * block, [&](int64_t piece) {
      const int64_t begin = piece * block, length = std::min(block, cols - begin);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t id = ids[i] - op.first;
        if (id < 0 || id >= vocabulary) continue;
        const T* const from = dy + i * cols + begin;
        const int64_t ahead = i + 1 < rows ? cols : 0;
        A* const to = dtable + id * cols + begin;
        vectors<A>(length, [&](int64_t j, int64_t count) {
          prefetch(from + ahead + j);
          store(to + j, load<Vec<A>>(to + j, count) + load<Vec<A>>(from + j, count) * scale, count);
        });
      }
    });
  });
}

}  // namespace frugal::FRUGAL_SIMD
