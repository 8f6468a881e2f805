#include "kernels/cuda/blas_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace frugal::kernels::cuda {
namespace {

/// The matrices behind a view, one way or the other: where rows are contiguous, column-major memory
/// has their transpose.
ColumnMajor column_major(const View& view, bool transpose) {
  const auto last = static_cast<size_t>(view.shape.dims) - 1;
  const int64_t rows = view.shape.extent[last - 1], cols = view.shape.extent[last];
  const int64_t row_stride = view.stride[last - 1], col_stride = view.stride[last];
  ColumnMajor matrix{.type = view.type, .batch_stride = view.shape.dims == 3 ? view.stride[0] : 0};
  // The stride of an extent of 1 means nothing.
  const bool rows_contiguous = col_stride == 1 || cols == 1;
  if (rows_contiguous) {
    matrix.rows = cols;
    matrix.cols = rows;
    matrix.leading = std::max(rows == 1 ? 0 : row_stride, cols);
    matrix.transposed = !transpose;
  } else {
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.leading = std::max(col_stride, rows);
    matrix.transposed = transpose;
  }
  return matrix;
}

/// The largest power of two, up to 256, that divides an address.
uint32_t alignment(const View& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.data) | 256U;
  return static_cast<uint32_t>(address & ~(address - 1));
}

void mix(uint64_t& hash, int64_t x) {
  hash = (hash ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 29;
}

}  // namespace

BlasProblem::BlasProblem(const Gemm& op, bool tf32_, Epilogue epilogue_, const View& auxiliary)
    : bias_type(!op.bias.empty()                       ? op.bias.type
                : epilogue_ == Epilogue::bias_gradient ? op.c.type
                                                       : DType::f32),
      bias(!op.bias.empty()),
      accumulate(op.accumulate),
      tf32(tf32_ && op.a.type == DType::f32),
      batch(op.batch()),
      epilogue(epilogue_) {
  d = column_major(op.c, false);
  // Where c's rows are contiguous, column-major memory holds cᵀ = op(b)ᵀ · op(a)ᵀ.
  exchanged = d.transposed;
  if ((bias || epilogue != Epilogue::none) && !exchanged)
    throw std::invalid_argument(
        "gemm: a bias, its gradient or GELU needs a result whose rows are contiguous");
  d.transposed = false;
  const ColumnMajor x = column_major(op.a, op.transpose_a), y = column_major(op.b, op.transpose_b);
  a = exchanged ? y : x;
  b = exchanged ? x : y;
  if (exchanged) {
    a.transposed = !a.transposed;
    b.transposed = !b.transposed;
  }
  alignment_a = alignment(exchanged ? op.b : op.a);
  alignment_b = alignment(exchanged ? op.a : op.b);
  alignment_d = alignment(op.c);
  alignment_bias = bias ? alignment(op.bias) : 0;
  alignment_auxiliary = epilogue == Epilogue::none ? 0 : alignment(auxiliary);
}

bool BlasProblem::divisible() const {
  return d.type != DType::bf16 || (!bias && epilogue == Epilogue::none);
}

bool BlasProblem::fusable() const {
  constexpr uint32_t wide = 16;
  const auto aligned = [](const ColumnMajor& m, uint32_t alignment) {
    return m.leading % 8 == 0 && alignment >= wide;
  };
  if (a.type != DType::bf16 || b.type != DType::bf16 || batch != 1) return false;
  if (!aligned(d, alignment_d) || alignment_auxiliary < wide) return false;
  const bool operands = aligned(a, alignment_a) && aligned(b, alignment_b);
  // In d's type: of bf16, what is added to the gradient would be rounded before.
  if (epilogue == Epilogue::bias_gradient) return operands && !bias && d.type == DType::f32;
  return d.type == DType::bf16 && !accumulate &&
         (!bias || (operands && bias_type == DType::bf16 && alignment_bias >= wide));
}

std::string BlasProblem::text() const {
  constexpr std::array epilogues = {"", ", GELU", ", GELU's gradient", ", a bias's gradient"};
  const auto matrix = [](const ColumnMajor& x) {
    return fmt::format("{} [{}, {}]{} leading {} batch {}", name_of(x.type), x.rows, x.cols,
                       x.transposed ? "T" : "", x.leading, x.batch_stride);
  };
  return fmt::format("{} x {} -> {}, {} of them{}{}{}{}{}, aligned to {} {} {} {} {}", matrix(a),
                     matrix(b), matrix(d), batch, divisible() ? "" : ", undivided",
                     tf32 ? ", tf32" : "", bias ? fmt::format(", bias {}", name_of(bias_type)) : "",
                     accumulate ? ", accumulated" : "", epilogues.at(static_cast<size_t>(epilogue)),
                     alignment_a, alignment_b, alignment_d, alignment_bias, alignment_auxiliary);
}

size_t BlasProblemHash::operator()(const BlasProblem& p) const {
  uint64_t hash = 1;
  for (const ColumnMajor* m : {&p.a, &p.b, &p.d})
    for (const int64_t x : {static_cast<int64_t>(m->type), m->rows, m->cols, m->leading,
                            m->batch_stride, int64_t{m->transposed}})
      mix(hash, x);
  for (const int64_t x : {static_cast<int64_t>(p.bias_type), int64_t{p.bias}, int64_t{p.accumulate},
                          int64_t{p.tf32}, p.batch, int64_t{p.alignment_a}, int64_t{p.alignment_b},
                          int64_t{p.alignment_d}, int64_t{p.alignment_bias},
                          int64_t{p.alignment_auxiliary}, static_cast<int64_t>(p.epilogue)})
    mix(hash, x);
  return hash;
}

}  // namespace frugal::kernels::cuda
