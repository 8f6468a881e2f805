#include "tests/emulator/blas.h"

#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/blas_problem.h"

namespace frugal {
namespace {

using cuda_emulated::BlasProblem;
using cuda_emulated::ColumnMajor;

/// Element (i, j) of a matrix of the batch, as the library addresses it.
double element(const ColumnMajor& m, const void* data, int64_t batch, int64_t i, int64_t j) {
  if (m.transposed) std::swap(i, j);
  const int64_t at = batch * m.batch_stride + j * m.leading + i;
  switch (m.type) {
    case DType::bf16:
      return static_cast<double>(static_cast<float>(static_cast<const Bf16*>(data)[at]));
    case DType::f64:
      return static_cast<const double*>(data)[at];
    default:
      return static_cast<double>(static_cast<const float*>(data)[at]);
  }
}

void set(const ColumnMajor& m, void* data, int64_t batch, int64_t i, int64_t j, double value) {
  const int64_t at = batch * m.batch_stride + j * m.leading + i;
  switch (m.type) {
    case DType::bf16:
      static_cast<Bf16*>(data)[at] = Bf16(static_cast<float>(value));
      return;
    case DType::f64:
      static_cast<double*>(data)[at] = value;
      return;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

/// What the library refuses.
void check_layout(const ColumnMajor& m) {
  require(m.leading >= m.rows && m.leading >= 1, "a leading dimension is smaller than its column");
}

}  // namespace

void emulated_product(const Gemm& op) {
  const BlasProblem p(op, false);
  for (const ColumnMajor* m : {&p.a, &p.b, &p.d}) check_layout(*m);
  const int64_t m = p.d.rows, n = p.d.cols, k = p.a.transposed ? p.a.rows : p.a.cols;
  require((p.a.transposed ? p.a.cols : p.a.rows) == m, "a and d differ in rows");
  require((p.b.transposed ? p.b.cols : p.b.rows) == k, "a and b differ in depth");
  require((p.b.transposed ? p.b.rows : p.b.cols) == n, "b and d differ in columns");
  const void* const a = p.exchanged ? op.b.data : op.a.data;
  const void* const b = p.exchanged ? op.a.data : op.b.data;
  const ColumnMajor bias{.type = p.bias_type, .rows = m, .cols = 1, .leading = m};
  for (int64_t s = 0; s < p.batch; ++s) {
    std::vector<double> left, right;  // [m, k] and [n, k]
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) left.push_back(element(p.a, a, s, i, l));
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l) right.push_back(element(p.b, b, s, l, j));
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < m; ++i) {
        double sum = p.accumulate ? element(p.d, op.c.data, s, i, j) : 0;
        if (p.bias) sum += element(bias, op.bias.data, 0, i, 0);
        sum = std::inner_product(left.begin() + i * k, left.begin() + (i + 1) * k,
                                 right.begin() + j * k, sum);
        set(p.d, op.c.data, s, i, j, sum);
      }
  }
}

}  // namespace frugal
