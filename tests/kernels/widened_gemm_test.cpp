// Products of bf16 where the processor has none: as float32's, rounded once.
#include <gtest/gtest.h>

#include "kernels/cpu/gemm.h"
#include "tests/kernels/cpu_levels.h"
#include "tests/kernels/held.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels {
namespace {

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
