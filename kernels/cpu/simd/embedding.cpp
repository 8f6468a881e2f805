#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/rows.h"

namespace frugal::FRUGAL_SIMD {

void run(const Embedding& op) {
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

void run(const EmbeddingBackward& op) {
  by_type(op.dy.type, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* const ids = op.ids.as<int32_t>();
    const T* const dy = op.dy.as<T>();
    A* const dtable = op.dtable.as<A>();
    const int64_t rows = op.ids.size(), cols = op.dy.cols(), vocabulary = op.dtable.rows();
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
          store(to + j, load<Vec<A>>(to + j, count) + load<Vec<A>>(from + j, count), count);
        });
      }
    });
  });
}

}  // namespace frugal::FRUGAL_SIMD
