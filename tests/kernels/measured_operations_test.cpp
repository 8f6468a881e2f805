#include "kernels/virtual/measured_operations.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "kernels/virtual/cost_model.h"
#include "tests/support/message_of.h"
#include "tests/support/source_dir.h"

namespace frugal::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

View matrix(int64_t rows, int64_t cols, DType type = DType::f32) {
  return {nullptr, type, {rows, cols}};
}

Gemm product(int64_t m, int64_t n, int64_t k) {
  return {.a = matrix(m, k), .b = matrix(n, k), .c = matrix(m, n), .transpose_b = true};
}

TEST(MeasuredOperations, AFormSaysWhatDecidesBesidesTheSize) {
  EXPECT_EQ(form_of(product(8, 16, 32)), "gemm f32 transpose_b");
  Gemm gemm = product(8, 16, 32);
  gemm.a = {nullptr, DType::bf16, {4, 8, 32}};
  gemm.c = {nullptr, DType::f32, {4, 8, 16}};
  gemm.bias = View(nullptr, DType::bf16, {16});
  gemm.accumulate = true;
  EXPECT_EQ(form_of(gemm), "gemm bf16 batched transpose_b accumulate bias");
  Softmax softmax{.x = matrix(8, 8), .p = matrix(8, 8), .causal = true, .dropout = {}};
  EXPECT_EQ(form_of(softmax), "softmax f32 causal");
  softmax.dropout.probability = 0.1F;
  softmax.mask = matrix(8, 8, DType::u8);
  EXPECT_EQ(form_of(softmax), "softmax f32 causal dropout mask");
  FusedAttentionBackward fused;
  fused.forward.q = matrix(8, 8, DType::bf16);
  fused.forward.window = 4;
  EXPECT_EQ(form_of(fused), "fused-attention-backward bf16 window");
  EXPECT_EQ(form_of(Copy{matrix(8, 8), matrix(8, 8, DType::bf16)}), "copy f32 to bf16");
  EXPECT_EQ(form_of(Gelu{matrix(8, 8, DType::f64), matrix(8, 8, DType::f64)}), "gelu f64");
}

TEST(MeasuredOperations, ALineGoesThroughItsPoints) {
  const MeasuredForm form{.points = {{1e3, 2e-6}, {1e5, 8e-6}, {1e6, 1e-3}}};
  const auto at = [&](double bytes) { return form.seconds({.bytes = bytes}); };
  EXPECT_DOUBLE_EQ(at(10), 2e-6);  // no less than the smallest
  EXPECT_DOUBLE_EQ(at(1e3), 2e-6);
  EXPECT_NEAR(at(1e4), std::sqrt(2e-6 * 8e-6), 1e-15);  // half way, on logarithmic scales
  EXPECT_DOUBLE_EQ(at(1e5), 8e-6);
  EXPECT_DOUBLE_EQ(at(1e6), 1e-3);
  EXPECT_DOUBLE_EQ(at(5e6), 5e-3);  // the rate of the largest
}

TEST(MeasuredOperations, AProductHasAPriceForEachTerm) {
  const Gemm gemm = product(8, 16, 32);
  const Work work = work_of(gemm);
  EXPECT_THAT(work.product,
              ElementsAre(1, 2.0 * 8 * 16 * 32, 4.0 * 8 * 32, 4.0 * 16 * 32, 4.0 * 8 * 16));
  const MeasuredForm form{.prices = {1e-6, 1e-11, 2e-10, 3e-10, 4e-10}, .points = {}};
  EXPECT_DOUBLE_EQ(form.seconds(work), 1e-6 + 8192e-11 + 1024 * 2e-10 + 2048 * 3e-10 + 512 * 4e-10);
  const Gelu gelu{matrix(8, 16), matrix(8, 16)};
  EXPECT_FALSE(work_of(gelu).is_product());
  EXPECT_EQ(work_of(gelu).bytes, 2 * 4.0 * 8 * 16);
}

MeasuredOperations read(const nlohmann::json& forms) {
  return read_operations(JsonObject(forms, "m.json", "operations.forms"));
}

TEST(MeasuredOperations, AreReadAsTheyWereWritten) {
  const MeasuredOperations all{
      {"gelu f32", {.points = {{1e3, 2e-6}, {1e5, 8e-6}}}},
      {"gemm f32", {.prices = {1e-6, 1e-11, 2e-10, 0, 4e-10}, .points = {}}}};
  EXPECT_EQ(to_json(read(to_json(all))), to_json(all));
}

TEST(MeasuredOperations, WhatIsWrongIsRefusedInOneLine) {
  const auto message = [](const nlohmann::json& forms) {
    return message_of<InputError>([&] { (void)read(forms); });
  };
  const auto points = [](nlohmann::json list) {
    return nlohmann::json{{"gelu f32", {{"points", std::move(list)}}}};
  };
  const char* rising = "m.json: operations.forms.gelu f32.points must be a list";
  EXPECT_THAT(message(points(nlohmann::json::array())), HasSubstr(rising));
  EXPECT_THAT(message(points({{1000, 1e-6}, {1000, 2e-6}})), HasSubstr(rising));
  EXPECT_THAT(message(points({{1000, 2e-6}, {2000, 1e-6}})), HasSubstr(rising));
  EXPECT_THAT(message(points({{1000, 0}})), HasSubstr(rising));
  EXPECT_THAT(message(points({{1000, "1"}})), HasSubstr(rising));
  const auto prices = [](double once) {
    const nlohmann::json all = {{"once", once},
                                {"per_flop", 0},
                                {"per_byte_of_a", 0},
                                {"per_byte_of_b", 0},
                                {"per_byte_of_c", 0}};
    return nlohmann::json{{"gemm f32", all}};
  };
  EXPECT_EQ(message(prices(1)), "nothing was thrown");
  EXPECT_THAT(message(prices(0)), HasSubstr("m.json: operations.forms.gemm f32.once is 0"));
  EXPECT_THAT(message(prices(-1)), HasSubstr("m.json: operations.forms.gemm f32.once is -1"));
}

TEST(MeasuredOperations, StandInPlaceOfWhatFollowsFromPeaks) {
  const std::string file = testing::source_dir() + "/hardware/a100-selene.json";
  nlohmann::json json = load_json(file);
  const CostModel before(parse_machine(json.dump(), file));
  const MeasuredOperations slow{{"gemm f32 transpose_b", {.prices = {1}, .points = {}}}};
  json["operations"] = {{"source", "a test"}, {"forms", to_json(slow)}};
  const CostModel after(parse_machine(json.dump(), file));
  EXPECT_DOUBLE_EQ(after.duration(product(64, 64, 64)), 1);
  EXPECT_LT(before.duration(product(64, 64, 64)), 1);
  const Gelu gelu{matrix(64, 64), matrix(64, 64)};
  EXPECT_DOUBLE_EQ(after.duration(gelu), before.duration(gelu));
  json["operations"]["source"] = "";
  EXPECT_THROW(parse_machine(json.dump(), file), InputError);
}

}  // namespace
}  // namespace frugal::kernels
