// Fused attention against the separate operations that it replaces, with the same dropout: the
// product of Q and K, softmax, the product with V, and their gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cpu_levels.h"
#include "tests/kernels/held.h"
#include "tests/support/test_seed.h"

namespace frugal::kernels {
namespace {

struct Results {
  std::vector<double> y, dqkv;
};

struct Setting {
  DType type;
  int64_t s;
  bool causal;
  Dropout dropout;
};

constexpr int64_t batch = 2, d = 24;

class Attention {
 public:
  Attention(Device& device, const Setting& setting)
      : device_(device),
        setting_(setting),
        qkv_(device, setting.type, {setting.s, batch, 3 * d}),
        dqkv_(device, setting.type, {setting.s, batch, 3 * d}),
        y_(device, setting.type, {setting.s, batch, d}),
        dy_(device, setting.type, {setting.s, batch, d}) {
    qkv_.draw(table::test_seed());
    dy_.draw(table::test_seed() + 1);
  }

  Results fused() {
    const Held log_sum_exp(device_, accumulation_type(setting_.type), {batch, setting_.s});
    const FusedAttention forward{.q = qkv_.matrices(0, 3),
                                 .k = qkv_.matrices(1, 3),
                                 .v = qkv_.matrices(2, 3),
                                 .y = y_.matrices(0, 1),
                                 .log_sum_exp = log_sum_exp.view(),
                                 .scale = scale(),
                                 .causal = setting_.causal,
                                 .dropout = setting_.dropout};
    device_.execute(forward);
    device_.execute(FusedAttentionBackward{.forward = forward,
                                           .dy = dy_.matrices(0, 1),
                                           .dq = dqkv_.matrices(0, 3),
                                           .dk = dqkv_.matrices(1, 3),
                                           .dv = dqkv_.matrices(2, 3)});
    return {y_.values(), dqkv_.values()};
  }

  Results separate() {
    const Shape square{batch, setting_.s, setting_.s};
    const Held p(device_, setting_.type, square), dropped(device_, setting_.type, square);
    const Held dscores(device_, setting_.type, square);
    const bool drops = setting_.dropout.active();
    const View used = drops ? dropped.view() : p.view(), dx = dscores.view();
    const View q = qkv_.matrices(0, 3), k = qkv_.matrices(1, 3), v = qkv_.matrices(2, 3);
    const View y = y_.matrices(0, 1), dy = dy_.matrices(0, 1);
    device_.execute(Gemm{.a = q, .b = k, .c = p.view(), .transpose_b = true});
    device_.execute(Softmax{.x = p.view(),
                            .p = p.view(),
                            .dropped = drops ? used : View(),
                            .scale = scale(),
                            .causal = setting_.causal,
                            .dropout = setting_.dropout});
    device_.execute(Gemm{.a = used, .b = v, .c = y});
    device_.execute(Gemm{.a = used, .b = dy, .c = dqkv_.matrices(2, 3), .transpose_a = true});
    device_.execute(Gemm{.a = dy, .b = v, .c = dx, .transpose_b = true});
    device_.execute(SoftmaxBackward{.dy = dx,
                                    .p = p.view(),
                                    .dx = dx,
                                    .scale = scale(),
                                    .causal = setting_.causal,
                                    .dropout = setting_.dropout});
    device_.execute(Gemm{.a = dx, .b = k, .c = dqkv_.matrices(0, 3)});
    device_.execute(Gemm{.a = dx, .b = q, .c = dqkv_.matrices(1, 3), .transpose_a = true});
    return {y_.values(), dqkv_.values()};
  }

 private:
  static float scale() { return 1 / std::sqrt(static_cast<float>(d)); }

  Device& device_;
  Setting setting_;
  Held qkv_, dqkv_, y_, dy_;
};

/// A few roundings of the type; in float32 and float64 a wrong decision of dropout is far above.
double tolerance(DType type) {
  return type == DType::f64 ? 1e-13 : type == DType::f32 ? 5e-6 : 0.02;
}

/// One block, and several of 128 rows and 512 columns with a rest.
constexpr std::array<int64_t, 3> lengths{33, 150, 650};

void expect_equal(Device& device, DType type, int64_t s, const std::string& level) {
  const Dropout some{0.2F, {table::test_seed(), 4, 9}, {1000003, 3 * s, 5 * s + 1}};
  for (const bool causal : {true, false})
    for (const Dropout& dropout : {some, Dropout{}}) {
      SCOPED_TRACE(std::string(name_of(type)) + ", " + level + ", s = " + std::to_string(s) +
                   (causal ? ", causal" : "") + (dropout.active() ? ", dropout" : ""));
      Attention attention(device, {type, s, causal, dropout});
      const Results expected = attention.separate(), actual = attention.fused();
      EXPECT_LT(error(actual.y, expected.y), tolerance(type));
      EXPECT_LT(error(actual.dqkv, expected.dqkv), tolerance(type));
    }
}

TEST(FusedAttention, EqualsTheSeparateOperations) {
  SCOPED_TRACE("seed " + std::to_string(table::test_seed()));
  for (const std::string& level : cpu_levels()) {
    const CpuLevel scope(level);
    CpuDevice device(2);
    for (const DType type : {DType::f32, DType::bf16, DType::f64})
      for (const int64_t s : lengths) expect_equal(device, type, s, level);
  }
}

/// Without sums over other columns: each row's first key alone decides, so y is v dropped or not.
TEST(FusedAttention, OfOneKeyIsItsValueOrNothing) {
  CpuDevice device(1);
  const Held q(device, DType::f32, {1, 500, 8}), k(device, DType::f32, {1, 1, 8}),
      v(device, DType::f32, {1, 1, 8}), y(device, DType::f32, {1, 500, 8}),
      log_sum_exp(device, DType::f32, {1, 500});
  for (const Held* x : {&q, &k, &v})
    device.execute(RandomNormal{.x = x->view(), .stream = {1, 2, 3}, .index = {}});
  const Dropout dropout{0.5F, {9, 8, 7}, {}};
  device.execute(FusedAttention{.q = q.view(),
                                .k = k.view(),
                                .v = v.view(),
                                .y = y.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .dropout = dropout});
  const std::vector<double> value = v.values(), result = y.values();
  int kept = 0;
  for (size_t i = 0; i < 500; ++i) {
    const bool drops = result[8 * i] == 0;
    kept += drops ? 0 : 1;
    for (size_t l = 0; l < 8; ++l)
      EXPECT_EQ(result[8 * i + l], drops ? 0 : value[l] * dropout.keep_scale());
  }
  EXPECT_GT(kept, 150);
  EXPECT_LT(kept, 350);
}

}  // namespace
}  // namespace frugal::kernels
