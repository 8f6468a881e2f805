#include <gtest/gtest.h>

#include "kernels/virtual/cost_model.h"

namespace frugal::kernels {
namespace {

/// Kernels take a second for each byte, and those of attention two.
Machine byte_machine() {
  Machine m;
  m.flops_bf16 = m.flops_f32 = m.flops_f64 = 1e30;
  m.gemm_fraction = m.gemm_sustained = 1;
  m.memory_bandwidth = m.memory_fraction = 1;
  m.attention_fraction = 0.5;
  m.l2_bandwidth = 1e30;
  m.multiprocessors = 1;
  m.tiles = {{128, 128}};
  return m;
}

std::vector<double> kernels(const Machine& machine, const Operation& operation,
                            const DeviceRules& rules = {}) {
  const CostModel::Kernels all = CostModel(machine, rules).kernels(operation);
  std::vector<double> seconds;
  for (const CostModel::Kernel& each : all) seconds.push_back(each.alone);
  return seconds;
}

std::vector<double> with(bool ExtraKernels::*part, const Operation& operation) {
  DeviceRules rules;
  rules.kernels.*part = true;
  return kernels(byte_machine(), operation, rules);
}

View bf16(const Shape& shape) { return {nullptr, DType::bf16, shape}; }
View f32(const Shape& shape) { return {nullptr, DType::f32, shape}; }

const View x = bf16({4, 8});  // 64 bytes
const View mask(nullptr, DType::u8, {4, 8});

Gemm product() { return {.a = bf16({4, 2}), .b = bf16({2, 8}), .c = x, .bias = bf16({8})}; }
constexpr double product_bytes = 16 + 32 + 64, bias_bytes = 16;

Dropout dropping() {
  Dropout dropout;
  dropout.probability = 0.25F;
  return dropout;
}

using Seconds = std::vector<double>;

TEST(Kernels, AnOperationIsOneByDefault) {
  EXPECT_EQ(kernels(byte_machine(), product()), Seconds{product_bytes + bias_bytes});
  EXPECT_EQ(kernels(byte_machine(), GemmGelu{product(), x}),
            Seconds{product_bytes + bias_bytes + 64});
  EXPECT_EQ(kernels(byte_machine(), Gelu{x, x}), Seconds{128});
}

TEST(Kernels, ABiasIsReadAndAddedToTheProduct) {
  EXPECT_EQ(with(&ExtraKernels::bias, product()), (Seconds{product_bytes, 128 + bias_bytes}));
  Gemm none = product();
  none.bias = {};
  EXPECT_EQ(with(&ExtraKernels::bias, none), Seconds{product_bytes});
}

TEST(Kernels, GeluFollowsItsProduct) {
  EXPECT_EQ(with(&ExtraKernels::gelu, GemmGelu{product(), x}),
            (Seconds{product_bytes + bias_bytes, 128}));
  Gemm back = product();
  back.bias = {};
  EXPECT_EQ(with(&ExtraKernels::gelu, GemmGeluBackward{back, x}), (Seconds{product_bytes, 3 * 64}));
}

TEST(Kernels, AWeightsGradientIsAddedToThoseBefore) {
  Gemm g = product();
  g.bias = {};
  g.accumulate = true;
  EXPECT_EQ(kernels(byte_machine(), g), Seconds{product_bytes + 64});
  EXPECT_EQ(with(&ExtraKernels::accumulation, g), (Seconds{product_bytes, 3 * 64}));
}

/// Sums come with the product's own kernel; another adds them to those before.
TEST(Kernels, ABiassGradientComesWithItsWeights) {
  const View sums = f32({8});  // 32 bytes
  const GemmBiasGradient both{
      {.a = x, .b = bf16({4, 2}), .c = f32({8, 2}), .bias = {}, .transpose_a = true}, sums};
  constexpr double bytes = 64 + 16 + 64;
  EXPECT_EQ(kernels(byte_machine(), both), (Seconds{bytes, 3 * 32}));
  EXPECT_EQ(with(&ExtraKernels::bias_gradient, both), (Seconds{bytes, 64 + 2 * 32}));
}

TEST(Kernels, SoftmaxReadsWhatItSeesAndItsDropoutFollows) {
  const View scores = bf16({1, 8, 8});  // 128 bytes
  const View kept(nullptr, DType::u8, {1, 8, 8});
  Softmax op{.x = scores, .p = scores, .dropout = {}};
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{2 * 256});
  op.causal = true;
  const double seen = 128 * 9.0 / 16;
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{2 * (seen + 128)});
  EXPECT_EQ(with(&ExtraKernels::mask, op), (Seconds{2 * 256, 2 * 256})) << "and then reads all";
  op.dropped = scores;
  op.mask = kept;
  op.dropout = dropping();
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{2 * (seen + 128 + 64 + 128)});
  EXPECT_EQ(with(&ExtraKernels::dropout, op), (Seconds{2 * (seen + 128), 2 * (128.0 + 64 + 128)}));
}

TEST(Kernels, SoftmaxsGradient) {
  const View scores = bf16({1, 8, 8});
  const View kept(nullptr, DType::u8, {1, 8, 8});
  SoftmaxBackward op{
      .dy = scores, .p = scores, .mask = kept, .dx = scores, .causal = true, .dropout = dropping()};
  const double seen = 128 * 9.0 / 16;
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{2 * (2 * seen + 128 + 64)});
  EXPECT_EQ(with(&ExtraKernels::dropout, op), (Seconds{2 * (256.0 + 64), 2 * (2 * seen + 128)}));
  EXPECT_EQ(with(&ExtraKernels::mask, op), (Seconds{2 * (256.0 + 128 + 64), 2 * 256}));
}

TEST(Kernels, ResidualsGradientIsAddedBehindTheNorms) {
  LayerNormBackward op{x, x, f32({4}), f32({4}), bf16({8}), x, x, f32({8}), f32({8})};
  const double all = op.cost().bytes;
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{all});
  EXPECT_EQ(with(&ExtraKernels::residual, op), (Seconds{all - 64, 3 * 64}));
  op.add = {};
  EXPECT_EQ(with(&ExtraKernels::residual, op), Seconds{all - 64});
}

TEST(Kernels, BiasDropoutAndResidual) {
  const BiasDropoutAdd op{
      .x = x, .bias = bf16({1, 8}), .residual = x, .y = x, .mask = mask, .dropout = dropping()};
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{3 * 64 + bias_bytes + 32});
  EXPECT_EQ(with(&ExtraKernels::dropout_add, op), (Seconds{128 + bias_bytes, 128 + 32, 128 + 64}));
  const BiasDropoutAddBackward back{
      .dy = x, .mask = mask, .dx = x, .dbias = f32({1, 8}), .dropout = dropping()};
  EXPECT_EQ(kernels(byte_machine(), back), Seconds{128 + 32 + 2 * 32});
  EXPECT_EQ(with(&ExtraKernels::bias_gradient, back), (Seconds{128 + 32, 64 + 2 * 32}));
}

TEST(Kernels, AdamClipsAndCopiesItsWeights) {
  const View w = bf16({32}), state = f32({32});  // 64 and 128 bytes
  const Adam op{.update = {.weights = w, .gradient = state, .master = state},
                .first_moment = state,
                .second_moment = state};
  const double all = 128 + 64 + 2 * 128 + 4 * 128;
  EXPECT_EQ(kernels(byte_machine(), op), Seconds{all});
  EXPECT_EQ(with(&ExtraKernels::clipping, op), (Seconds{2 * 128, all - 64, 128 + 64}));
  EXPECT_EQ(with(&ExtraKernels::division, op), (Seconds{2 * 128, all}));
}

TEST(Kernels, ADurationIsTheirSum) {
  Machine machine = byte_machine();
  const DeviceRules rules{.kernels = {.bias = true}};
  machine.kernel_latency = 1000;
  const Seconds each = kernels(machine, product(), rules);
  ASSERT_EQ(each.size(), 2);
  EXPECT_EQ(CostModel(machine, rules).duration(product()), each[0] + each[1]);
  EXPECT_EQ(each[1], 1000 + 128 + bias_bytes);
}

TEST(Kernels, ANormsGradientHasTheRateOfWhoeverComputesIt) {
  Machine m = byte_machine();
  m.pytorch_norm_fraction = 0.25;
  m.engine_norm_fraction = 0.5;
  const View narrow = bf16({8}), row = f32({4});
  const LayerNormBackward norm{x, x, row, row, narrow, {}, x, narrow, narrow};
  const double bytes = norm.cost().bytes;
  const auto seconds = [&](Norms norms) { return kernels(m, norm, {.norms = norms}); };
  EXPECT_EQ(seconds(Norms::own), Seconds{bytes});
  EXPECT_EQ(seconds(Norms::pytorch), Seconds{bytes / 0.25});
  EXPECT_EQ(seconds(Norms::transformer_engine), Seconds{bytes / 0.5});
}

/// 6 bytes an element of an activation, 8 of a weight; a weight's gradient finds both cast.
TEST(Kernels, Float8CastsWhatItMultiplies) {
  Machine m = byte_machine();
  m.flops_float8 = 1e30;
  m.gemm_float8 = 1;
  DeviceRules rules;
  rules.kernels.float8 = true;
  const Gemm forward{.a = bf16({4, 2}), .b = bf16({8, 2}), .c = x, .bias = {}, .transpose_b = true};
  EXPECT_EQ(kernels(m, forward, rules), (Seconds{16 + 32 + 64, 6 * 8 + 8 * 16}));
  const Gemm input{.a = bf16({4, 2}), .b = bf16({2, 8}), .c = x};
  EXPECT_EQ(kernels(m, input, rules), (Seconds{16 + 32 + 64, 6 * 8}));
  const Gemm weight{.a = bf16({2, 4}), .b = bf16({2, 8}), .c = x, .bias = {}, .transpose_a = true};
  EXPECT_EQ(kernels(m, weight, rules), Seconds{16 + 32 + 64});
  m.flops_float8 = 0;
  EXPECT_EQ(kernels(m, forward, rules), Seconds{16 + 32 + 64}) << "a machine without";
}

}  // namespace
}  // namespace frugal::kernels
