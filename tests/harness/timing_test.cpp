#include "harness/measure/timing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/measure/statistics.h"

namespace frugal::harness {
namespace {

TEST(TimeInterleaved, RunsEachCaseOncePerRoundAndKeepsNoWarmUp) {
  std::string order;
  int kept = 0;
  const auto run = [&](char name) {
    return [&, name](bool keep) {
      order += name;
      kept += keep ? 1 : 0;
    };
  };
  const int rounds =
      time_interleaved({run('A'), run('B'), run('C')}, {.warm_up = 3, .samples = 12});
  EXPECT_EQ(rounds, 12);
  EXPECT_EQ(kept, 36);
  ASSERT_EQ(order.size(), 45U);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], "ABC"[i % 3]);
}

TEST(TimeInterleaved, StopsAtTheBudgetButNotBelowTheMinimum) {
  double now = 0;
  const auto clock = [&] { return now; };
  const auto case_of = [&](double seconds) {
    return std::vector<std::function<void(bool)>>{[&now, seconds](bool) { now += seconds; }};
  };
  EXPECT_EQ(time_interleaved(case_of(100), {.warm_up = 1, .samples = 50, .budget = 5}, clock),
            TimingPlan::minimum);
  now = 0;
  EXPECT_EQ(time_interleaved(case_of(1), {.warm_up = 2, .samples = 50, .budget = 20}, clock), 18);
  EXPECT_EQ(time_interleaved(case_of(1), {.samples = 3, .budget = 1e9}, clock),
            TimingPlan::minimum);
}

/// Looks after 10, 20, 40 … rounds and no others; at the end of the budget it ends undecided.
TEST(TimeInterleaved, LooksAtVerdictsWheneverRoundsHaveDoubled) {
  double now = 0;
  std::vector<int> looks;
  int kept = 0;
  const auto rounds = [&](int decided_at, double budget) {
    now = kept = 0;
    looks.clear();
    return time_interleaved(
        {[&](bool keep) { ++now, kept += keep ? 1 : 0; }},
        {.warm_up = 2, .samples = 10, .budget = budget, .stop = "decided"}, [&] { return now; }, {},
        [&] {
          looks.push_back(kept);
          return kept >= decided_at;
        });
  };
  EXPECT_EQ(rounds(25, 1e9), 40);
  EXPECT_EQ(looks, (std::vector{10, 20, 40}));
  EXPECT_EQ(rounds(1, 1e9), 10);
  EXPECT_EQ(rounds(1000, 35), 33);
  EXPECT_EQ(looks, (std::vector{10, 20}));
  EXPECT_EQ(rounds(1 << 30, 20000), 19998);
  EXPECT_EQ(looks.size(), static_cast<size_t>(most_looks));
}

}  // namespace
}  // namespace frugal::harness
