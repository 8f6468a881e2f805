// Findings of groups of checks from times that are made up, worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/validate/group.h"
#include "harness/validate/workbench.h"

namespace frugal::harness {
namespace {

/// A burst every 2 s.
Series series_of(const char* key, const char* unit, double work,
                 const std::vector<double>& fastest) {
  Series series{key, "w", unit, work, 1, {}};
  for (const double seconds : fastest)
    series.bursts.push_back({2. * static_cast<double>(series.bursts.size()), seconds, 2 * seconds});
  return series;
}

class Judged : public ::testing::Test {
 protected:
  std::vector<Finding> of(std::string_view group, std::vector<Series> series) {
    const Watched watched{bench_, expectations_, std::move(series), 32, {0, 0, true}, {}, {}};
    for (const CheckGroup& one : check_groups())
      if (one.name == group) return one.judge(watched);
    throw std::out_of_range(std::string(group));
  }
  /// Compares the line that a reader sees, the number and its limit.
  static void expect(const Finding& found, const std::string& said, double value, double limit) {
    EXPECT_EQ(found.seen + "|" + found.expected + "|" + found.reason, said);
    EXPECT_NEAR(found.number->seen.value / value, 1, 1e-12);
    EXPECT_NEAR(found.number->limit / limit, 1, 1e-12);
  }

  std::unique_ptr<Target> target_ = make_target({.on = "cpu", .threads = 2});
  Workbench bench_{*target_, true};
  Expectations expectations_{
      *target_,
      {{"a reference",
        target_->device(),
        {{"flops_f32", 8e9}, {"operation_time", 2e-6}, {"collective/all-gather", 4e9}}}}};
};

TEST_F(Judged, RatesAreOfWorkAndTimesOfASecond) {
  const std::vector<double> half(7, 0.5);
  const auto peaks =
      of("peaks", {series_of("flops_f32", "FLOP/s", 2e9, half),
                   series_of("operation_time", "s", 0, std::vector<double>(7, 3e-6))});
  expect(peaks.at(0), "w: 4 [4, 4] GFLOP/s|8 GFLOP/s, a reference|50 % of the speed of a reference",
         4e9, 5.6e9);
  expect(peaks.at(1), "w: 3 [3, 3] us|2 us, a reference|67 % of the speed of a reference", 3e-6,
         2e-6 / 0.7);
  expect(of("collectives", {series_of("collective/all-gather", "B/s", 1.5e9, half)}).at(0),
         "w: 3 [3, 3] GB/s|4 GB/s, a reference|", 3e9, 2.8e9);
}

/// Between 2 ranks, 2 (2 - 1) / 2 of all crosses a link in an all-reduce, and half of it in an
/// all-gather.
TEST_F(Judged, CollectivesSayHowMuchTheyMove) {
  const auto probes = collectives_group().probes(bench_);
  EXPECT_EQ(probes.at(0).what, "all-reduce of 2 MiB by 2 ranks, bus");
  EXPECT_EQ(probes.at(0).work, 2 << 20);
  EXPECT_EQ(probes.at(1).work, 1 << 20);
}

TEST_F(Judged, RatesOfLongerTimesAreLower) {
  const Series series = series_of("x", "B/s", 6, {1, 2, 3, 4, 5, 6, 7, 8});
  const Estimate seconds = series.undisturbed(), rate = series.value();
  EXPECT_LT(seconds.interval->low, seconds.interval->high);
  EXPECT_DOUBLE_EQ(rate.interval->low, 6 / seconds.interval->high);
  EXPECT_DOUBLE_EQ(rate.interval->high, 6 / seconds.interval->low);
  const nlohmann::json kept = reference_json({series}, *target_, "c");
  EXPECT_EQ(kept["values"]["x"],
            (nlohmann::json{{"what", "w"},
                            {"unit", "B/s"},
                            {"value", 6 / 2.75},
                            {"interval", {rate.interval->low, rate.interval->high}}}));
}

TEST_F(Judged, MemoryIsHeldAgainstTheMedianOfAllThatMovesIt) {
  std::vector<Series> all;
  for (const double work : {4e9, 10e9, 12e9})
    all.push_back(series_of("memory/x", "B/s", work, std::vector<double>(7, 2)));
  const auto found = of("rooflines", all);
  const std::string rest = "|5 GB/s, the median of 3 memory-bound operations here|";
  expect(found.at(0), "w: 2 [2, 2] GB/s" + rest + "40 % of the rate of the others", 2e9, 3.25e9);
  expect(found.at(2), "w: 6 [6, 6] GB/s" + rest, 6e9, 3.25e9);
}

/// 1 % more every 2 s: in 30 s 1.01^15, and the first of the last quarter is the 12th.
TEST_F(Judged, DriftIsFromTheFirstToTheLast) {
  std::vector<double> rising;
  for (int i = 0; i < 16; ++i) rising.push_back(std::pow(1.01, i));
  expect(of("drift", {series_of("clock", "FLOP/s", 1, rising)}).at(0),
         "w: +16.1 % [+16.1, +16.1] in 30 s; the shortest of the last quarter +12.7 %|as long as "
         "at the beginning|"
         "it became 16.1 % slower in 30 s",
         std::pow(1.01, 15) - 1, 0.025);
}

TEST_F(Judged, VariationIsTheMiddleHalfOverTheMedian) {
  const Finding found =
      of("variation", {series_of("x", "s", 0, {1, 9, 2, 8, 3, 7, 4, 6, 5})}).at(0);
  EXPECT_EQ(found.seen,
            "w: the middle half of 9 undisturbed rounds is 80.0 % wide");  // 7 less 3, of 5
  EXPECT_TRUE(found.reason.starts_with("times of the middle half are 80 % apart")) << found.reason;
  EXPECT_DOUBLE_EQ(found.number->seen.value, 0.8);
  EXPECT_EQ(found.number->limit, 0.25);
}

TEST_F(Judged, RanksAreHeldAgainstTheOthersOfTheRound) {
  const auto found =
      of("ranks", {series_of("rank/0", "s", 0, {1, 2, 3, 4, 5, 6, 7}),
                   series_of("rank/1", "s", 0, {1.25, 2.5, 3.75, 5, 6.25, 7.5, 8.75})});
  expect(found.at(0),
         "w: -20.0 % [-20.0, -20.0]|as long as the median of the other ranks, in the same rounds|",
         -0.2, 0.1);
  expect(found.at(1),
         "w: +25.0 % [+25.0, +25.0]|as long as the median of the other ranks, in the same rounds|"
         "rank 1 takes 25 % longer than the others",
         0.25, 0.1);
}

}  // namespace
}  // namespace frugal::harness
