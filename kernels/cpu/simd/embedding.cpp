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

/// The rows of dy that belong to the table, ordered by the table's row and then as they come.
class OrderedRows {
 public:
  explicit OrderedRows(const EmbeddingBackward& op)
      : keys_(static_cast<uint64_t*>(
            scratch(Scratch::partial_sums, static_cast<size_t>(op.ids.bytes()) * 2))) {
    const auto* const ids = op.ids.as<int32_t>();
    const int64_t vocabulary = op.dtable.rows();
    for (int64_t i = 0; i < op.ids.size(); ++i) {
      const int64_t id = ids[i] - op.first;
      if (id >= 0 && id < vocabulary)
        keys_[size_++] = static_cast<uint64_t>(id) << 32 | static_cast<uint64_t>(i);
    }
    std::sort(keys_, keys_ + size_);
  }
  int64_t size() const { return size_; }
  int64_t of_table(int64_t k) const { return static_cast<int64_t>(keys_[k] >> 32); }
  int64_t of_dy(int64_t k) const { return static_cast<int64_t>(keys_[k] & 0xffffffffU); }
  /// Whether the k-th is the first of its row of the table; also of where there are no more.
  bool begins(int64_t k) const { return k == 0 || k == size_ || of_table(k) != of_table(k - 1); }

 private:
  uint64_t* keys_;
  int64_t size_ = 0;
};

/// Columns whose sum stays in the innermost cache.
constexpr int64_t block = 512;

/// Adds the k-th row and all others of its row of the table, in columns [begin, begin + length).
template <class T, class G>
void add_rows(const EmbeddingBackward& op, const OrderedRows& rows, int64_t k, int64_t begin,
              int64_t length) {
  using A = Accumulator<T>;
  using V = Vec<A>;
  const int64_t cols = op.dy.cols();
  const T* const dy = op.dy.as<T>() + begin;
  G* const to = op.dtable.as<G>() + rows.of_table(k) * cols + begin;
  A total[block];
  bool first = true, last = false;
  for (; !last; ++k, first = false) {
    last = rows.begins(k + 1);
    const T* const from = dy + rows.of_dy(k) * cols;
    const T* const next = k + 1 < rows.size() ? dy + rows.of_dy(k + 1) * cols : from;
    vectors<A>(length, [&, scale = A(op.scale)](int64_t j, int64_t count) {
      prefetch(next + j);
      const V before = first ? load<V>(to + j, count) : load<V>(total + j, count);
      const V sum = before + load<V>(from + j, count) * scale;
      last ? store(to + j, sum, count) : store(total + j, sum, count);
    });
  }
}

}  // namespace

void run(const Embedding& op) { op.scale == 1 ? copy_rows(op) : scale_rows(op); }

void run(const EmbeddingBackward& op) {
  const OrderedRows rows(op);
  constexpr int64_t together = 64;  // rows
  const int64_t cols = op.dy.cols(), pieces = (rows.size() + together - 1) / together;
  const auto add_all = [&]<class T, class G>(T, G) {
    parallel((cols + block - 1) / block * pieces, together * block, [&](int64_t i) {
      const int64_t begin = i / pieces * block, length = std::min(block, cols - begin);
      const int64_t from = i % pieces * together;
      for (int64_t k = from; k < std::min(from + together, rows.size()); ++k)
        if (rows.begins(k)) add_rows<T, G>(op, rows, k, begin, length);
    });
  };
  by_type(op.dy.type, [&]<class T>(T t) {
    op.dtable.type == op.dy.type ? add_all(t, t) : add_all(t, Accumulator<T>{});
  });
}

}  // namespace frugal::FRUGAL_SIMD
