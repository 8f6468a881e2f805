#pragma once
#include <array>
#include <string_view>
#include <utility>

#include "harness/namespace.h"
#include "kernels/operations.h"

/// The products of a linear layer y = x Wᵀ with x [tokens, in] and W [out, in]. The two of its
/// backward pass are two thirds of a training step's.
namespace frugal::harness {

/// c [m, n] = op(a) · op(b), or `batch` of them.
struct Product {
  std::string_view name = {};
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool wide = false;         ///< c is float32
  bool accumulates = false;  ///< the product is added to c

  Shape shape_of_a() const { return shape(m, k, transpose_a); }
  Shape shape_of_b() const { return shape(k, n, transpose_b); }
  Shape shape_of_c() const { return shape(m, n, false); }
  DType type_of_c(DType type) const { return wide ? DType::f32 : type; }
  Gemm gemm(const View& a, const View& b, const View& c) const {
    return {.a = a,
            .b = b,
            .c = c,
            .bias = {},
            .transpose_a = transpose_a,
            .transpose_b = transpose_b,
            .accumulate = accumulates};
  }

 private:
  Shape shape(int64_t rows, int64_t cols, bool transposed) const {
    if (transposed) std::swap(rows, cols);
    return batch == 1 ? Shape{rows, cols} : Shape{batch, rows, cols};
  }
};

struct LinearSize {
  int64_t tokens = 0, in = 0, out = 0;
};

/// y = x Wᵀ, dx = dy W, dW += dyᵀ x with dW of float32, and dW = dyᵀ x as the first microbatch
/// writes it.
inline std::array<Product, 4> products_of(const LinearSize& s) {
  return {{{"forward", 1, s.tokens, s.out, s.in, false, true, false, false},
           {"input-gradient", 1, s.tokens, s.in, s.out, false, false, false, false},
           {"weight-gradient", 1, s.out, s.in, s.tokens, true, false, true, true},
           {"first-weight-gradient", 1, s.out, s.in, s.tokens, true, false, true, false}}};
}

}  // namespace frugal::harness
