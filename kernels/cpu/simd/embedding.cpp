#include "kernels/cpu/simd/rows.h"

namespace frugal::kernels::FRUGAL_SIMD {

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

/// Rows of dy that belong to the same row of the table, in their order.
class Occurrences {
 public:
  static constexpr int32_t none = -1;

  explicit Occurrences(const EmbeddingBackward& op)
      : op_(op),
        first_(static_cast<int32_t*>(
            scratch(Scratch::partial_sums,
                    static_cast<size_t>(op.dtable.rows() + op.ids.size()) * sizeof(int32_t)))),
        next_(first_ + op.dtable.rows()) {
    std::fill_n(first_, op.dtable.rows(), none);
    for (int64_t i = op.ids.size() - 1; i >= 0; --i) {
      if (!in_table(i)) continue;
      next_[i] = first_[id(i)];
      first_[id(i)] = static_cast<int32_t>(i);
    }
  }
  int64_t id(int64_t i) const { return op_.ids.as<int32_t>()[i] - op_.first; }
  bool begins(int64_t i) const { return in_table(i) && first_[id(i)] == i; }
  int64_t next(int64_t i) const { return next_[i]; }

 private:
  bool in_table(int64_t i) const { return id(i) >= 0 && id(i) < op_.dtable.rows(); }

  const EmbeddingBackward& op_;
  int32_t *first_, *next_;
};

/// Columns whose sum stays in the innermost cache.
constexpr int64_t block = 512;

/// Adds row i of dy and all that follow it in its row of the table, in columns [begin, begin +
/// length).
template <class T, class G>
void add_rows(const EmbeddingBackward& op, const Occurrences& rows, int64_t i, int64_t begin,
              int64_t length) {
  using A = Accumulator<T>;
  using V = Vec<A>;
  const int64_t cols = op.dy.cols();
  const T* const dy = op.dy.as<T>() + begin;
  G* const to = op.dtable.as<G>() + rows.id(i) * cols + begin;
  const int64_t after = std::min(i + 1, op.ids.size() - 1);
  A total[block];  // what becomes of the table's row, between the first and the last
  for (bool first = true; i != Occurrences::none; first = false) {
    const int64_t next = rows.next(i);
    const bool last = next == Occurrences::none;
    const T* const from = dy + i * cols;
    const T* const soon = dy + (last ? after : next) * cols;
    const auto add = [&, scale = A(op.scale)](const auto* sum, auto* larger) {
      vectors<A>(length, [=](int64_t j, int64_t count) {
        prefetch(soon + j);
        store(larger + j, load<V>(sum + j, count) + load<V>(from + j, count) * scale, count);
      });
    };
    if (first)
      last ? add(to, to) : add(to, total);
    else
      last ? add(total, to) : add(total, total);
    i = next;
  }
}

}  // namespace

template <>
void run(const Embedding& op) {
  op.scale == 1 ? copy_rows(op) : scale_rows(op);
}

template <>
void run(const EmbeddingBackward& op) {
  const Occurrences occurrences(op);
  constexpr int64_t together = 64;  // rows
  const int64_t rows = op.ids.size(), cols = op.dy.cols();
  const int64_t pieces = (rows + together - 1) / together;
  const auto add_all = [&]<class T, class G>(T, G) {
    parallel((cols + block - 1) / block * pieces, together * block, [&](int64_t piece) {
      const int64_t begin = piece / pieces * block, length = std::min(block, cols - begin);
      const int64_t first = piece % pieces * together;
      for (int64_t i = first; i < std::min(first + together, rows); ++i)
        if (occurrences.begins(i)) add_rows<T, G>(op, occurrences, i, begin, length);
    });
  };
  by_type(op.dy.type, [&]<class T>(T t) {
    op.dtable.type == op.dy.type ? add_all(t, t) : add_all(t, Accumulator<T>{});
  });
}

}  // namespace frugal::kernels::FRUGAL_SIMD
