// Which products cuBLASLt may be asked to end with GELU, or to sum a bias's gradient beside: its
// documentation's conditions.
#include <gtest/gtest.h>

#include <array>

#include "kernels/cuda/blas.h"

namespace frugal::kernels {
namespace {

using cuda::BlasProblem;
using cuda::Epilogue;

struct Shapes {
  DType type = DType::bf16;
  int64_t m = 16, n = 24, k = 8;
  int64_t shift = 0;                 ///< of what stands before GELU, in elements
  int64_t shift_a = 0, shift_b = 0;  ///< of the operands
};

bool fusable(const Shapes& s) {
  alignas(256) static std::array<char, 1 << 14> memory;
  const auto view = [&](const Shape& shape, int64_t shift = 0) {
    return View(memory.data() + shift * size_of(s.type), s.type, shape);
  };
  const Gemm product{.a = view({s.m, s.k}, s.shift_a),
                     .b = view({s.n, s.k}, s.shift_b),
                     .c = view({s.m, s.n}),
                     .bias = view({s.n}),
                     .transpose_b = true};
  return BlasProblem(product, false, Epilogue::gelu, view({s.m, s.n}, s.shift)).fusable();
}

TEST(BlasProblemTest, FusesGeluWhereTheLibraryCan) {
  EXPECT_TRUE(fusable({}));
  EXPECT_FALSE(fusable({.type = DType::f32})) << "its GELU is an approximation";
  EXPECT_FALSE(fusable({.type = DType::f64}));
  EXPECT_FALSE(fusable({.n = 20})) << "columns of 20 elements";
  EXPECT_FALSE(fusable({.shift = 1})) << "off the boundary of 16 bytes";
  EXPECT_TRUE(fusable({.shift = 8}));
  EXPECT_FALSE(fusable({.k = 12})) << "operands with rows of 24 bytes";
  EXPECT_FALSE(fusable({.shift_a = 1})) << "the left one lies off the boundary";
  EXPECT_FALSE(fusable({.shift_b = 1}));
}

/// Gradients of a weight [n, k] and of its bias, which may be added to.
TEST(BlasProblemTest, SumsABiassGradientWhereTheLibraryCan) {
  alignas(256) static std::array<char, 1 << 14> memory;
  const auto sums = [&](DType type, DType result, const Shapes& s) {
    const auto view = [&](DType of, const Shape& shape, int64_t shift = 0) {
      return View(memory.data() + shift * size_of(of), of, shape);
    };
    const Gemm product{.a = view(type, {s.m, s.n}, s.shift_a),
                       .b = view(type, {s.m, s.k}, s.shift_b),
                       .c = view(result, {s.n, s.k}),
                       .bias = {},
                       .transpose_a = true,
                       .accumulate = true};
    return BlasProblem(product, false, Epilogue::bias_gradient, view(result, {1, s.n}, s.shift))
        .fusable();
  };
  EXPECT_TRUE(sums(DType::bf16, DType::f32, {}));
  EXPECT_FALSE(sums(DType::bf16, DType::bf16, {})) << "the sum is rounded before it is added";
  EXPECT_FALSE(sums(DType::f32, DType::f32, {}));
  EXPECT_FALSE(sums(DType::f64, DType::f64, {}));
  EXPECT_FALSE(sums(DType::bf16, DType::f32, {.n = 20})) << "rows of 40 bytes";
  EXPECT_FALSE(sums(DType::bf16, DType::f32, {.k = 12}));
  EXPECT_TRUE(sums(DType::bf16, DType::f32, {.m = 13})) << "any number of rows";
  EXPECT_FALSE(sums(DType::bf16, DType::f32, {.shift = 1})) << "sums off the boundary of 16 bytes";
  EXPECT_FALSE(sums(DType::bf16, DType::f32, {.shift_a = 1}));
  EXPECT_FALSE(sums(DType::bf16, DType::f32, {.shift_b = 1}));
}

TEST(BlasProblemTest, DividesNoDepthBehindWhichABf16EpilogueRounds) {
  std::array<float, 64> memory{};
  const auto product = [&](DType type, bool biased) {
    const View x(memory.data(), type, {4, 4}), bias(memory.data(), type, {4});
    return BlasProblem({.a = x, .b = x, .c = x, .bias = biased ? bias : View()}, false);
  };
  EXPECT_TRUE(product(DType::bf16, false).divisible());
  EXPECT_FALSE(product(DType::bf16, true).divisible());
  EXPECT_TRUE(product(DType::f32, true).divisible()) << "nothing is rounded";
  EXPECT_NE(product(DType::bf16, true).text().find("undivided"), std::string::npos)
      << "an algorithm that was chosen before the rule has another name";
}

TEST(BlasProblemTest, RefusesABiasAlongColumns) {
  std::array<float, 64> memory{};
  const View x(memory.data(), DType::f32, {4, 4});
  const View by_columns = x.strided(0, {4, 4}, {1, 4});
  const View bias(memory.data(), DType::f32, {4});
  EXPECT_THROW(BlasProblem({.a = x, .b = x, .c = by_columns, .bias = bias}, false),
               std::invalid_argument);
}

}  // namespace
}  // namespace frugal::kernels
