#pragma once
#include <algorithm>

#include "kernels/operations.h"

/// How fused attention is divided into blocks, and where these lie.
namespace frugal::kernels {

/// Consecutive rows of a matrix.
struct Range {
  int64_t begin = 0, count = 0;
  int64_t end() const { return begin + count; }
};

/// The blocks of the scores of one matrix of a FusedAttention. Their sizes decide the order of
/// sums, so they depend on nothing else.
class AttentionBlocks {
 public:
  /// The fastest of 64 to 256 by 128 to 512 on an x86-64 core with 1 MiB of second-level cache.
  static constexpr int64_t block_rows = 128, block_cols = 512;

  explicit AttentionBlocks(const FusedAttention& op) : op_(op) {}

  int64_t across() const { return (op_.cols() + block_cols - 1) / block_cols; }
  int64_t down() const { return (op_.rows() + block_rows - 1) / block_rows; }
  Range rows(int64_t i) const {
    return {i * block_rows, std::min(block_rows, op_.rows() - i * block_rows)};
  }
  Range cols(int64_t j) const {
    return {j * block_cols, std::min(block_cols, op_.cols() - j * block_cols)};
  }
  /// Columns of a block that some of the rows see, from a multiple of block_rows on, so that few
  /// different sizes come up. count is 0 if there are none.
  Range seen(Range rows, int64_t j) const {
    const Range all = cols(j);
    if (!op_.causal) return all;
    const int64_t first = op_.first_seen(rows.begin) / block_rows * block_rows;
    const int64_t begin = std::max(all.begin, first), end = std::min(all.end(), rows.end());
    return {begin, std::max<int64_t>(0, end - begin)};
  }

 private:
  const FusedAttention& op_;
};

/// Rows of one matrix of several, which are [matrices, rows, d] or [groups, heads, rows, d].
inline View rows_of(const View& v, int64_t matrix, Range rows) {
  const bool grouped = v.shape.dims == 4;
  const size_t row = grouped ? 2 : 1;
  const int64_t heads = grouped ? v.shape[1] : 1;
  const int64_t first = matrix / heads * v.stride[0] + (grouped ? matrix % heads * v.stride[1] : 0);
  return v.strided(first + rows.begin * v.stride[row], {rows.count, v.cols()},
                   {v.stride[row], v.stride[row + 1]});
}

/// Buffers one after the other in a thread's scratch; without memory they are only counted.
class Buffers {
 public:
  explicit Buffers(void* memory = nullptr) : memory_(static_cast<char*>(memory)) {}

  View take(DType type, const Shape& shape) {
    const View view(memory_ == nullptr ? nullptr : memory_ + bytes_, type, shape);
    bytes_ += static_cast<size_t>((view.bytes() + 63) / 64 * 64);
    return view;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* memory_;
  size_t bytes_ = 0;
};

/// The beginning of a buffer as [rows, cols], contiguous.
inline View part_of(const View& buffer, int64_t rows, int64_t cols) {
  return {buffer.data, buffer.type, {rows, cols}};
}

}  // namespace frugal::kernels
