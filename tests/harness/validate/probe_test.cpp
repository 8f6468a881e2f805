#include "harness/validate/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace frugal::harness {
namespace {

/// A clock that only what is executed advances.
struct FakeClock {
  double now = 0;

  Probe probe(const std::string& key, double seconds, int burst, double work = 0) {
    return {.key = key,
            .what = key,
            .unit = work == 0 ? "s" : "B/s",
            .work = work,
            .burst = burst,
            .seconds = [this, seconds] {
              now += seconds;
              return seconds;
            }};
  }
};

const auto never = [] { return Waits(); };

TEST(Watch, TakesTurnsUntilTheTimeIsOver) {
  FakeClock clock;
  const auto series = watch(
      {clock.probe("a", 0.25, 2), clock.probe("b", 0.5, 1)}, {.seconds = 20},
      [&] { return clock.now; }, never);
  ASSERT_EQ(series.size(), 2U);
  ASSERT_EQ(series[0].bursts.size(), 19U);  // a round lasts a second, and the first is not kept
  EXPECT_EQ(series[1].bursts.size(), 19U);
  // Either of both comes first, in as many rounds but one.
  int a_first = 0;
  for (size_t round = 0; round < 19; ++round) {
    const double a = series[0].bursts[round].at, b = series[1].bursts[round].at;
    const double begin = 1.0 + static_cast<double>(round);
    EXPECT_EQ(std::min(a, b), begin);
    EXPECT_EQ(std::max(a, b), begin + 0.5);  // twice a's quarter of a second, or b's half
    a_first += a < b ? 1 : 0;
  }
  EXPECT_NEAR(a_first, 9.5, 0.5);
}

TEST(Watch, HasAsManyRoundsAsItNeedsHoweverLongTheyLast) {
  FakeClock clock;
  const auto series = watch(
      {clock.probe("a", 100, 1)}, {.seconds = 1}, [&] { return clock.now; }, never);
  EXPECT_EQ(series[0].bursts.size(), static_cast<size_t>(TimingPlan::minimum));
}

/// Executions take 5, 3 and 9 seconds, and others take a processor away during some of them. Waits
/// are looked at before and after each.
Burst burst_where(const std::vector<Waits>& waits) {
  int call = 0;
  size_t look = 0;
  const double seconds[] = {5, 3, 9};
  Probe probe{.key = "a", .what = "a", .unit = "s", .burst = 3, .seconds = {}};
  probe.seconds = [&] { return seconds[call++ % 3]; };
  return watch(
             {probe}, {}, [] { return 0.0; }, [&] { return waits[look++ % waits.size()]; })
      .front()
      .bursts.front();
}

TEST(Watch, OfABurstTheFastestCountsThatWasLeftAlone) {
  const Burst quiet = burst_where({{0, 0}});
  EXPECT_EQ(std::tuple(quiet.fastest, quiet.median, quiet.left_alone), std::tuple(3, 5, true));
  const Burst second =
      burst_where({{0, 0}, {0, 0}, {0, 0}, {1, 0}, {1, 0}, {1, 0}});  // a switch in the second
  EXPECT_EQ(std::tuple(second.fastest, second.median, second.left_alone), std::tuple(5, 7, true));
  const Burst late =
      burst_where({{0, 0}, {0, 0}, {0, 0}, {0, 0.1}, {0, 0.1}, {0, 0.1}});  // of 3 s it waited 0.1
  EXPECT_EQ(std::tuple(late.fastest, late.left_alone), std::tuple(5, true));
  const Burst woken = burst_where({{0, 0}, {0, 0}, {0, 0}, {0, 0.01}, {0, 0.01}, {0, 0.01}});
  EXPECT_EQ(woken.fastest, 3);
  const Burst ended = burst_where(
      {{0, 1}, {0, 1}, {0, 1}, {0, 0.5}, {0, 0.5}, {0, 0.5}});  // a thread, in the second
  EXPECT_EQ(ended.fastest, 5);
  const std::vector<Waits> always = {{0, 0}, {1, 0}, {1, 0}, {2, 0}, {2, 0}, {3, 0}};
  const Burst busy = burst_where(always);
  EXPECT_EQ(std::tuple(busy.fastest, busy.median, busy.left_alone), std::tuple(3, 5, false));
}

TEST(Watch, OfAThreadOfItsOwnAProbeSaysItselfWhetherItWasLeftAlone) {
  int call = 0;
  const ObservedTime executions[] = {{5, true}, {3, false}, {9, true}};
  Probe probe{.key = "a", .what = "a", .unit = "s", .burst = 3, .seconds = {}};
  probe.execution = [&] { return executions[call++ % 3]; };
  const Burst burst = watch(
                          {probe}, {}, [] { return 0.0; }, never)
                          .front()
                          .bursts.front();
  EXPECT_EQ(std::tuple(burst.fastest, burst.left_alone), std::tuple(5, true));
}

TEST(Waits, OnlyRise) {
  const Waits before = Waits::now(), after = Waits::now();
  EXPECT_GE(after.switches, before.switches);
  EXPECT_GE(after.delay, before.delay);
  EXPECT_TRUE(left_alone(before, before, 1e-6));
}

Series series_of(const std::vector<double>& seconds, size_t alone) {
  Series series{"memory_bandwidth", "copy", "B/s", 8e9, 1, {}};
  for (size_t i = 0; i < seconds.size(); ++i)
    series.bursts.push_back({static_cast<double>(i), seconds[i], seconds[i], i < alone});
  return series;
}

/// Half of the bursts are disturbed by what the kernel does not know, and others by what it does.
TEST(Series, ItsValueIsThatOfUndisturbedOnes) {
  std::vector<double> seconds;
  for (int i = 0; i < 40; ++i) seconds.push_back(i % 2 == 0 ? 1.0 : 3.0);
  for (int i = 0; i < 40; ++i) seconds.push_back(0.5);  // not undisturbed, so they are not trusted
  const Series series = series_of(seconds, 40);
  EXPECT_TRUE(series.judgeable());
  EXPECT_EQ(series.undisturbed().value, 1);
  EXPECT_EQ(series.value().value, 8e9);
  EXPECT_EQ(series.speed(16e9).value, 0.5);
  const Series time{"operation_time", "a small operation", "s", 0, 1, series.bursts};
  EXPECT_EQ(time.value().value, 1);
  EXPECT_EQ(time.speed(0.5).value, 0.5);  // twice as long is half as fast
}

TEST(Series, OfTooFewUndisturbedOnesAllCount) {
  const Series series = series_of(std::vector<double>(20, 2.0), 5);
  EXPECT_FALSE(series.judgeable());
  EXPECT_EQ(series.undisturbed().value, 2);
}

}  // namespace
}  // namespace frugal::harness
