#include "kernels/virtual/attention_rates.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/support/message_of.h"

namespace frugal::kernels {
namespace {

using ::testing::HasSubstr;

/// Attention of 4 heads of 128 over so many tokens.
FusedAttention attention_of(int64_t tokens, bool causal) {
  const View part{nullptr, DType::bf16, {4, tokens, 128}};
  return {.q = part,
          .k = part,
          .v = part,
          .y = part,
          .log_sum_exp = {},
          .causal = causal,
          .dropout = {}};
}

Machine rated() {
  Machine machine;
  machine.multiprocessors = 10;
  machine.attention = {{.kernel = "one",
                        .head_size = 128,
                        .causal = true,
                        .sequence = {1024, 4096},
                        .forward = {100e12, 200e12},
                        .backward = {50e12, 150e12},
                        .forward_dropout = 0.5,
                        .backward_dropout = 0.25,
                        .deterministic = 0.8,
                        .source = "a test"},
                       {.kernel = "one",
                        .head_size = 64,
                        .causal = false,
                        .sequence = {1024},
                        .forward = {10e12},
                        .backward = {10e12},
                        .source = "a test"},
                       {.kernel = "few",
                        .head_size = 128,
                        .causal = true,
                        .sequence = {1024},
                        .forward = {100e12},
                        .backward = {100e12},
                        .blocks = 100,
                        .forward_ramp = 2,
                        .source = "a test"}};
  return machine;
}

/// 4 heads, s (s + 1) / 2 pairs, 2 products of 2 · 128 FLOPs forward and 5 backward.
double flops(double s, int products) { return 4 * s * (s + 1) / 2 * 2 * 128 * products; }

TEST(AttentionRates, AreAStraightLineOverTheLogarithmOfLengths) {
  const AttentionClock clock(rated(), {.kernels = {"one"}});
  EXPECT_DOUBLE_EQ(clock.forward(attention_of(2048, true)), flops(2048, 2) / 150e12);
  EXPECT_DOUBLE_EQ(clock.backward(attention_of(2048, true)), flops(2048, 5) / 100e12);
  EXPECT_DOUBLE_EQ(clock.forward(attention_of(128, true)), flops(128, 2) / 100e12);
  EXPECT_DOUBLE_EQ(clock.forward(attention_of(8192, true)), flops(8192, 2) / 200e12);
}

TEST(AttentionRates, AreThoseOfTheFirstKernelThatAMachineHas) {
  EXPECT_TRUE(AttentionClock(rated(), {.kernels = {"other", "few"}}));
  EXPECT_FALSE(AttentionClock(rated(), {.kernels = {"other"}}));
  const AttentionClock clock(rated(), {.kernels = {"few", "one"}});
  const double blocks = 4 * 8;  // of 128 rows
  EXPECT_DOUBLE_EQ(clock.forward(attention_of(1024, true)),
                   flops(1024, 2) / 100e12 * (1 + 20 / blocks) / (1 + 20.0 / 100));
  EXPECT_DOUBLE_EQ(clock.backward(attention_of(1024, true)), flops(1024, 5) / 100e12);
}

/// FlashAttention 2 before Hopper, and where it is deterministic on Blackwell.
TEST(AttentionRates, AreThoseThatTransformerEngineTakes) {
  Machine machine = rated();
  machine.attention[0].kernel = "cudnn";              // 100 TFLOP/s at 1024 tokens
  machine.attention[2].kernel = "flash-attention-2";  // as fast, and with a ramp
  for (const auto& [capability, deterministic, flash] : {std::tuple{8.0, false, true},
                                                         {9.0, false, false},
                                                         {9.0, true, false},
                                                         {10.0, false, false},
                                                         {10.0, true, true}}) {
    machine.libraries.compute_capability = capability;
    const AttentionClock clock(machine,
                               {.deterministic = deterministic, .by_transformer_engine = true});
    EXPECT_EQ(clock.forward(attention_of(1024, true)) > flops(1024, 2) / 99e12, flash)
        << capability << deterministic;
  }
  EXPECT_DOUBLE_EQ(
      AttentionClock(machine, {.deterministic = true}).forward(attention_of(1024, true)),
      flops(1024, 2) / 100e12)
      << "frugal takes cuDNN's";
}

TEST(AttentionRates, AreThoseOfTheNearestHeadAndOfCausalAttention) {
  const AttentionClock clock(rated(), {.kernels = {"one"}});
  const double all_pairs = 4.0 * 1024 * 1024 * 2 * 128 * 2;
  EXPECT_DOUBLE_EQ(clock.forward(attention_of(1024, false)), all_pairs / 10e12);
}

TEST(AttentionRates, FallWithDropoutAndInADeterministicPass) {
  const AttentionClock clock(rated(), {.kernels = {"one"}, .deterministic = true});
  FusedAttention dropped = attention_of(1024, true);
  EXPECT_DOUBLE_EQ(clock.forward(dropped), flops(1024, 2) / 100e12);
  EXPECT_DOUBLE_EQ(clock.backward(dropped), flops(1024, 5) / (50e12 * 0.8));
  dropped.dropout.probability = 0.1F;
  EXPECT_DOUBLE_EQ(clock.forward(dropped), flops(1024, 2) / (100e12 * 0.5));
  EXPECT_DOUBLE_EQ(clock.backward(dropped), flops(1024, 5) / (50e12 * 0.8 * 0.25));
}

std::string error_of(const char* key, const nlohmann::json& value) {
  nlohmann::json entry = {{"kernel", "k"},         {"head_size", 64},
                          {"causal", true},        {"sequence", {512, 1024}},
                          {"forward", {1.0, 2.0}}, {"backward", {1.0, 2.0}},
                          {"source", "a test"}};
  entry[key] = value;
  const nlohmann::json machine = {{"attention", nlohmann::json::array({entry})}};
  return message_of<InputError>([&] { read_attention_rates(JsonObject(machine, "m.json")); });
}

TEST(AttentionRates, MistakesAreNamed) {
  EXPECT_EQ(error_of("causal", false), "nothing was thrown");
  EXPECT_THAT(error_of("sequence", {1024, 512}), HasSubstr("rising"));
  EXPECT_THAT(error_of("forward", {1.0}), HasSubstr("one for each of 2 lengths"));
  EXPECT_THAT(error_of("backward", {1.0, 0.0}), HasSubstr("above 0"));
  EXPECT_THAT(error_of("deterministic", 1.5), HasSubstr("at most 1"));
  EXPECT_THAT(error_of("forward_ramp", 1.0), HasSubstr("blocks"));
  EXPECT_THAT(error_of("source", ""), HasSubstr("say where"));
  EXPECT_THAT(error_of("rate", 1), HasSubstr("rate"));
}

}  // namespace
}  // namespace frugal::kernels
