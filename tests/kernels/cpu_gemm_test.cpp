// Products whose second operand the device copies, with more between its rows: large ones, and
// those whose rows share sets of a cache.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/device.h"
#include "tests/kernels/held.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels {
namespace {

struct Product {
  DType type;
  int64_t m, n, k;
  int64_t columns;  ///< of the tensor that b is the first n columns of
  bool transpose_a, bias, accumulate;
};

void PrintTo(const Product& p, std::ostream* out) {
  *out << name_of(p.type) << '_' << p.m << 'x' << p.n << 'x' << p.k << (p.transpose_a ? "_ta" : "")
       << (p.bias ? "_bias" : "") << (p.accumulate ? "_accumulate" : "");
}

std::vector<double> expected(const Product& p, const std::vector<double>& a,
                             const std::vector<double>& b, const std::vector<double>& bias,
                             std::vector<double> c) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = p.bias ? bias[static_cast<size_t>(j)] : 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += a[static_cast<size_t>(p.transpose_a ? l * p.m + i : i * p.k + l)] *
               b[static_cast<size_t>(l * p.columns + j)];
      double& result = c[static_cast<size_t>(i * p.n + j)];
      result = p.accumulate ? result + sum : sum;
    }
  return c;
}

class CopiedOperands : public ::testing::TestWithParam<Product> {};

TEST_P(CopiedOperands, AreMultipliedLikeOthers) {
  const Product p = GetParam();
  for (const int threads : {1, 2}) {
    CpuDevice device(threads);
    Held a(device, p.type, p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k});
    Held b(device, p.type, {p.k, p.columns}), bias(device, p.type, {p.n});
    Held c(device, p.type, {p.m, p.n});
    uint64_t seed = table::test_seed();
    for (Held* held : {&a, &b, &bias, &c}) held->draw(seed++);
    const auto before = b.values();
    const auto right = expected(p, a.values(), before, bias.values(), c.values());
    device.execute(Gemm{.a = a.view(),
                        .b = b.view().strided(0, {p.k, p.n}, {p.columns, 1}),
                        .c = c.view(),
                        .bias = p.bias ? bias.view() : View(),
                        .transpose_a = p.transpose_a,
                        .accumulate = p.accumulate});
    EXPECT_LT(error(c.values(), right), p.type == DType::bf16 ? 4e-3 : 1e-5)
        << threads << " threads";
    EXPECT_EQ(b.values(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(
    CpuGemm, CopiedOperands,
    ::testing::Values(Product{DType::f32, 128, 1536, 40, 1536, false, false, false},  // 6 KiB
                      Product{DType::f32, 128, 1536, 40, 1536, false, true, false},
                      Product{DType::f32, 128, 1536, 40, 1536, true, false, true},
                      Product{DType::f32, 130, 333, 65, 2560, false, true, true},  // part of a row
                      // Too few rows to copy for.
                      Product{DType::f32, 127, 1536, 40, 1536, false, false, false},
                      Product{DType::f32, 768, 100, 33, 100, false, true, false},
                      Product{DType::f32, 768, 99, 33, 101, true, false, true},
                      Product{DType::bf16, 768, 100, 33, 100, false, true, false},
                      Product{DType::bf16, 768, 96, 40, 101, true, false, true}),
    ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::kernels
