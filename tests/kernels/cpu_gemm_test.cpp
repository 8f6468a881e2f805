// Products whose second operand the device copies, with more between its rows: large ones, and
// those whose rows share sets of a cache. Products of bf16 where the processor has none: as
// float32's, rounded once.
#include <gtest/gtest.h>

#include "kernels/cpu/gemm.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/support/held.h"
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

/// 1030 x 2050 are six parts.
TEST(WidenedGemm, LargeMatricesAreMultipliedInParts) {
  constexpr int64_t m = 1030, n = 2050, k = 24;
  const CpuLevel level("baseline");
  CpuDevice device(2);
  Held a(device, DType::bf16, {k, m}), b(device, DType::bf16, {n, k}),
      c(device, DType::bf16, {m, n}), bias(device, DType::bf16, {n}),
      narrow(device, DType::bf16, {m, n});
  Held wide_a(device, DType::f32, {k, m}), wide_b(device, DType::f32, {n, k}),
      wide_bias(device, DType::f32, {n}), wide_c(device, DType::f32, {m, n});
  uint64_t seed = table::test_seed();
  for (Held* held : {&a, &b, &bias, &c}) held->draw(seed++);
  for (const auto& [from, to] :
       {std::pair{&a, &wide_a}, {&b, &wide_b}, {&bias, &wide_bias}, {&c, &wide_c}})
    device.execute(Copy{from->view(), to->view()});
  device.execute(Gemm{a.view(), b.view(), c.view(), bias.view(), true, true, true});
  device.execute(
      Gemm{wide_a.view(), wide_b.view(), wide_c.view(), wide_bias.view(), true, true, true});
  device.execute(Copy{wide_c.view(), narrow.view()});
  const auto ours = c.values(), right = narrow.values();
  constexpr double one_unit = 1.0 / 128;  // of the last place, where a sum lies between two
  int64_t apart = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    apart += ours[i] != right[i];
    ASSERT_LE(std::abs(ours[i] - right[i]), one_unit * std::abs(right[i]) + 1e-5) << i;
  }
  EXPECT_LT(apart, m * n / 1000);
}

TEST(WidenedGemm, PartsAreAllOfTheResultOnce) {
  const Gemm op{.a = View(nullptr, DType::bf16, {2500, 3}),
                .b = View(nullptr, DType::bf16, {3, 1025}),
                .c = View(nullptr, DType::bf16, {2500, 1025})};
  int64_t parts = 0, elements = 0;
  each_part(op, [&](const Gemm& part) {
    ++parts;
    elements += part.c.size();
    EXPECT_EQ(part.a.shape, (Shape{part.m(), 3}));
    EXPECT_EQ(part.b.shape, (Shape{3, part.n()}));
  });
  EXPECT_EQ(parts, 6);
  EXPECT_EQ(elements, op.c.size());
}

}  // namespace
}  // namespace frugal::kernels
