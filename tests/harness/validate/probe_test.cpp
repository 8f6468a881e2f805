#include "harness/validate/probe.h"

#include <gtest/gtest.h>

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

TEST(Watch, TakesTurnsUntilTheTimeIsOver) {
  FakeClock clock;
  const auto series = watch({clock.probe("a", 0.25, 2), clock.probe("b", 0.5, 1)}, {.seconds = 20},
                            [&] { return clock.now; });
  ASSERT_EQ(series.size(), 2U);
  ASSERT_EQ(series[0].bursts.size(), 19U);  // a round lasts a second, and the first is not kept
  EXPECT_EQ(series[1].bursts.size(), 19U);
  EXPECT_EQ(series[0].bursts[0].at, 1);
  EXPECT_EQ(series[1].bursts[0].at, 1.5);
  EXPECT_EQ(series[0].bursts[18].at, 19);
}

TEST(Watch, HasAsManyRoundsAsItNeedsHoweverLongTheyLast) {
  FakeClock clock;
  const auto series = watch({clock.probe("a", 100, 1)}, {.seconds = 1}, [&] { return clock.now; });
  EXPECT_EQ(series[0].bursts.size(), static_cast<size_t>(TimingPlan::minimum));
}

TEST(Series, OfABurstTheFastestCounts) {
  int call = 0;
  const double seconds[] = {5, 3, 9};
  Probe probe{.key = "a", .what = "a", .unit = "s", .burst = 3};
  probe.seconds = [&] { return seconds[call++ % 3]; };
  const Series series = watch({probe}, {}, [] { return 0.0; }).front();
  EXPECT_EQ(series.bursts[0].fastest, 3);
  EXPECT_EQ(series.bursts[0].median, 5);
}

/// Half of the bursts are disturbed, and it still is what an undisturbed one takes.
TEST(Series, ItsValueIsTheUndisturbedOnes) {
  Series series{"memory_bandwidth", "copy", "B/s", 8e9, 1, {}};
  for (int i = 0; i < 40; ++i) series.bursts.push_back({1.0 * i, i % 2 == 0 ? 1.0 : 3.0, 4.0});
  EXPECT_EQ(series.undisturbed().value, 1);
  EXPECT_EQ(series.value().value, 8e9);
  EXPECT_EQ(series.speed(16e9).value, 0.5);
  Series time{"operation_time", "a small operation", "s", 0, 1, series.bursts};
  EXPECT_EQ(time.value().value, 1);
  EXPECT_EQ(time.speed(0.5).value, 0.5);  // twice as long is half as fast
}

}  // namespace
}  // namespace frugal::harness
