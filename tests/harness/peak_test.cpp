#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "harness/place/target.h"
#include "harness/report/commands/peak_report.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"
#include "tests/kernels/cpu_levels.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::Each;
using ::testing::Gt;

/// A device that takes so many seconds for each execution, and records how many it was asked for.
struct Fake {
  double each = 0;
  std::vector<int> asked = {};
  double once = 0;  ///< that the first execution pays besides
  double operator()(int n) {
    asked.push_back(n);
    return n * each + (asked.size() == 1 ? once : 0);
  }
};

TEST(Repeated, RunsOnceWhereOneExecutionIsLongEnough) {
  Fake fake{.each = 0.5};
  Repeated timed(std::ref(fake), 0.1);
  EXPECT_EQ(timed.run(), 0.5);
  EXPECT_EQ(timed.run(), 0.5);
  EXPECT_EQ(fake.asked, (std::vector<int>{1, 1, 1, 1}));
  Repeated any(std::ref(fake), 0);
  any.run();
  EXPECT_EQ(any.repetitions(), 1);
}

TEST(Repeated, MakesASampleAsLongAsWanted) {
  Fake fake{.each = 1e-5};
  Repeated timed(std::ref(fake), 5e-3);
  EXPECT_EQ(timed.repetitions(), 0);
  EXPECT_NEAR(timed.run(), 1e-5, 1e-12);
  EXPECT_GE(timed.repetitions() * 1e-5, 5e-3);
  EXPECT_LE(timed.repetitions() * 1e-5, 8e-3);
  const size_t asked = fake.asked.size();
  timed.run();
  EXPECT_EQ(fake.asked.size(), asked + 1) << "it is found out once";
}

TEST(Repeated, MakesASampleAsLongWhereTheFirstExecutionIsLong) {
  Fake fake{.each = 1e-5, .once = 1};
  Repeated timed(std::ref(fake), 5e-3);
  EXPECT_NEAR(timed.run(), 1e-5, 1e-12);
  EXPECT_GE(timed.repetitions() * 1e-5, 5e-3);
}

TEST(Repeated, EndsWhereSomethingTakesNoTime) {
  Fake fake{.each = 0};
  Repeated timed(std::ref(fake), 5e-3);
  EXPECT_EQ(timed.run(), 0);
}

TEST(CollectiveRates, CountBytesThatEachLinkCarries) {
  const auto rates =
      collective_rates(*make_target({.on = "cpu", .threads = 2}), 2, int64_t{4} << 20);
  ASSERT_EQ(rates.size(), 6U);  // three collectives of two sizes
  for (const CollectiveRate& rate : rates) {
    EXPECT_EQ(rate.ranks, 2);
    EXPECT_EQ(rate.factor, rate.name == "all-reduce" ? 1 : 0.5) << rate.name;
    EXPECT_THAT(rate.seconds, Each(Gt(0)));
    EXPECT_EQ(rate.seconds.size(), 10U);
    const double work = rate.factor * static_cast<double>(rate.bytes);
    const auto [fastest, slowest] = std::minmax_element(rate.seconds.begin(), rate.seconds.end());
    EXPECT_GE(rate.value, work / *slowest);
    EXPECT_LE(rate.value, work / *fastest);
  }
  EXPECT_EQ(rates[0].bytes, int64_t{1} << 20);
  EXPECT_EQ(rates[1].bytes, int64_t{4} << 20);
}

/// y [tokens, out] = x [tokens, in] Wᵀ [in, out], and the gradients of x and W. A product that is
/// added to its result reads that, too.
TEST(LinearRates, AreOfALayersForwardAndBackwardPass) {
  const auto sized = [](const LinearRate& rate) {
    return std::tuple(rate.product.name, rate.product.m, rate.product.n, rate.product.k);
  };
  for (const char* on : {"cpu", "virtual:h100-dgx"}) {
    const auto target = make_target({.on = on, .threads = 2});
    const std::vector<LinearSize> sizes = linear_sizes(target->kind());
    const std::vector<LinearRate> rates = linear_rates(DType::bf16, *target);
    ASSERT_EQ(rates.size(), 4 * sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto [tokens, in, out] = sizes[i];
      const LinearRate *const y = &rates[4 * i], *const dx = y + 1, *const dw = y + 2;
      EXPECT_EQ(sized(*y), std::tuple("forward", tokens, out, in));
      EXPECT_EQ(sized(*dx), std::tuple("input-gradient", tokens, in, out));
      EXPECT_EQ(sized(*dw), std::tuple("weight-gradient", out, in, tokens));
      EXPECT_EQ(sized(*(dw + 1)), std::tuple("first-weight-gradient", out, in, tokens));
      for (const LinearRate* rate : {y, dx, dw, dw + 1}) {
        std::vector<double> each;
        for (const double seconds : rate->seconds)
          each.push_back(2.0 * static_cast<double>(tokens * in * out) / seconds);
        EXPECT_NEAR(rate->value / median(each), 1, 1e-9);
      }
      if (target->simulated()) {
        EXPECT_GT(median(dw->seconds), median((dw + 1)->seconds));
      }
    }
  }
}

/// On operands of small numbers: the sums are exact.
TEST(LinearRates, TheirProductsAreThoseOfTheEquations) {
  const LinearSize size{3, 4, 2};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                           w = {1, -1, 2, 0, 0, 3, -2, 1}, dy = {1, 2, 3, 4, 5, 6};
  const std::map<std::string_view, std::pair<std::vector<float>, std::vector<float>>> operands = {
      {"forward", {x, w}},
      {"input-gradient", {dy, w}},
      {"weight-gradient", {dy, x}},
      {"first-weight-gradient", {dy, x}}};
  const std::map<std::string_view, std::vector<float>> right = {
      {"forward", {5, 4, 13, 12, 21, 20}},
      {"input-gradient", {1, 5, -2, 2, 3, 9, -2, 4, 5, 13, -2, 6}},
      {"weight-gradient", {71, 80, 89, 98, 86, 98, 110, 122}},
      {"first-weight-gradient", {61, 70, 79, 88, 76, 88, 100, 112}}};
  const auto cluster = one_rank(*make_target({.on = "cpu", .threads = 1}));
  Rank& rank = cluster->rank(0);
  for (const Product& product : products_of(size)) {
    const auto& [a, b] = operands.at(product.name);
    const Tensor of_a = rank.allocate(DType::f32, product.shape_of_a()),
                 of_b = rank.allocate(DType::f32, product.shape_of_b()),
                 c = rank.allocate(product.type_of_c(DType::f32), product.shape_of_c());
    rank.device.copy_from_host(of_a, a.data());
    rank.device.copy_from_host(of_b, b.data());
    rank.run(Fill{c, 10});
    rank.run(product.gemm(of_a, of_b, c));
    std::vector<float> result(right.at(product.name).size());
    rank.device.copy_to_host(result.data(), c);
    EXPECT_EQ(result, right.at(product.name)) << product.name;
    EXPECT_EQ(product.type_of_c(DType::bf16),
              product.name.ends_with("weight-gradient") ? DType::f32 : DType::bf16);
  }
}

/// As `frugal peak` would report it, without measuring.
Peaks invented() {
  Peaks peaks;
  for (const DType type : {DType::f32, DType::bf16}) {
    auto& rates = peaks.gemms.emplace_back();
    for (const int64_t k : {64, 32}) {
      GemmRate& rate = rates.emplace_back();
      rate.type = type;
      rate.shape = {64, 64, k};
      rate.seconds.assign(10, 1e-6);
      rate.set(static_cast<double>(k));
    }
  }
  peaks.copy.bytes = 2 << 20;
  peaks.copy.seconds.assign(10, 1e-3);
  peaks.copy.set(2 << 20);
  peaks.launch = {median_estimate(std::vector<double>(10, 2e-6)),
                  median_estimate(std::vector<double>(10, 1e-6))};
  peaks.product_launch = peaks.launch;
  peaks.why_no_collectives = "alone";
  return peaks;
}

TEST(PeakReport, NamesItsPlace) {
  const json report = to_json(invented(), *make_target({.on = "cpu", .threads = 2}));
  EXPECT_EQ(report["schema"], "frugal.peak/1");
  EXPECT_EQ(report["threads"], 2);
  const CpuLevel baseline("baseline");
  EXPECT_EQ(to_json(invented(), *make_target({.on = "cpu", .threads = 2}))["options"],
            json({{"simd", "baseline"}}));
  EXPECT_TRUE(report["collectives"].empty());
  EXPECT_EQ(report["why_no_collectives"], "alone");
}

TEST(PeakReport, CallsProductsOfFloat32WhatTheyAre) {
  EXPECT_EQ(type_label(DType::f32, false), "f32");
  EXPECT_EQ(type_label(DType::bf16, true), "bf16");
  Peaks peaks = invented();
  for (const bool tf32 : {false, true}) {
    peaks.tf32 = tf32;
    const char *const right = tf32 ? "tf32" : "f32", *const wrong = tf32 ? "f32" : "tf32";
    const auto place = make_target({.on = "cpu", .threads = 2});
    const Target& cpu = *place;
    const json report = to_json(peaks, cpu), machine = measured_machine(peaks, cpu, "", "");
    EXPECT_EQ(report["gemm"][0]["type"], right);
    EXPECT_EQ(report["gemm"][2]["type"], "bf16");
    EXPECT_EQ(report["float32_products"], tf32 ? "tf32" : "float32");
    EXPECT_EQ(report["measured_peak"][right]["type"], right);
    EXPECT_FALSE(report["measured_peak"].contains(wrong));
    EXPECT_TRUE(machine["measured"].contains(std::string("flops_") + right));
    const auto rows = peak_table(peaks).rows;
    EXPECT_EQ(rows[0][0], std::string("gemm ") + right);
    EXPECT_EQ(rows[2][0], std::string("measured peak ") + right);
  }
}

TEST(PeakReport, OfAVirtualMachineMeasuresNothing) {
  const auto place = make_target({.on = "virtual:h100-dgx"});
  Peaks peaks = invented();
  peaks.simulated = true;
  const json report = to_json(peaks, *place);
  EXPECT_EQ(report["source"], "virtual");
  EXPECT_FALSE(report.contains("measured_peak"));
  EXPECT_EQ(report["virtual_peak"]["bf16"], report["gemm"][2]);
  for (const json& part : {report["gemm"][0], report["copy"], report["launch"]["each"]})
    EXPECT_TRUE(part.at("interval").is_null()) << part;
  for (const auto& row : peak_table(peaks).rows) {
    EXPECT_EQ(row[3], "") << row[0];
    EXPECT_EQ(row[0].find("measured"), std::string::npos) << row[0];
  }
  EXPECT_EQ(peak_table(peaks).rows[2][0], "virtual peak f32");
}

TEST(PeakReport, AMeasuredMachineNamesItsOrigin) {
  const json machine = measured_machine(
      invented(), *make_target({.on = "cpu", .threads = 2, .hardware = "a100-selene"}), "mine",
      "frugal peak");
  EXPECT_EQ(machine["schema"], "frugal.measured-machine/1");
  EXPECT_EQ(machine["name"], "mine");
  EXPECT_NEAR(machine["measured"]["flops_bf16"]["value"], 64e6, 1);
  EXPECT_EQ(machine["measured"]["memory_bandwidth"]["unit"], "B/s");
  EXPECT_FALSE(machine["measured"].contains("link_bandwidth"));
  EXPECT_EQ(machine["data_sheet"]["machine"], "a100-selene");
  EXPECT_EQ(machine["data_sheet"]["parameters"]["device.flops_bf16"]["value"], 312e12);
  EXPECT_EQ(machine["provenance"]["command"], "frugal peak");
  EXPECT_TRUE(
      measured_machine(invented(), *make_target({.on = "cpu", .threads = 2}), "", "")["data_sheet"]
          .is_null());
}

}  // namespace
}  // namespace frugal::harness
