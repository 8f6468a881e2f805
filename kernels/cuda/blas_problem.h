#pragma once
#include <string>

#include "kernels/cuda/name.h"
#include "kernels/operations.h"

namespace frugal::FRUGAL_CUDA {

/// One matrix of a product as cuBLASLt sees it: column by column.
struct ColumnMajor {
  DType type = DType::f32;
  int64_t rows = 0, cols = 0, leading = 0, batch_stride = 0;
  bool transposed = false;  ///< is used as its transpose
  bool operator==(const ColumnMajor&) const = default;
};

/// A product as cuBLASLt is asked for it: d [m, n] = a [m, k] · b [k, n], everything column by
/// column. A product of row-major matrices, c = x · y, is one of column-major ones with the
/// operands exchanged: cᵀ = yᵀ · xᵀ. What decides how it is computed, and so the key of what was
/// decided.
struct BlasProblem {
  ColumnMajor a, b, d;
  DType bias_type = DType::f32;
  bool bias = false, accumulate = false, tf32 = false;
  int64_t batch = 1;
  uint32_t alignment_a = 0, alignment_b = 0, alignment_d = 0,
           alignment_bias = 0;  ///< of addresses, bytes

  bool exchanged = true;  ///< a is op.b and b is op.a; always where there is a bias

  /// Throws std::invalid_argument for a bias where c's rows are not contiguous.
  BlasProblem(const Gemm& op, bool tf32);

  bool operator==(const BlasProblem&) const = default;
  std::string text() const;
};

struct BlasProblemHash {
  size_t operator()(const BlasProblem& problem) const;
};

}  // namespace frugal::FRUGAL_CUDA
