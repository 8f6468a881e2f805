#include "harness/measure/control.h"

#include <gmock/gmock.h>

#include <vector>

namespace frugal::harness {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Twenty rounds, each with a speed of its own.
struct Passes {
  std::vector<double> whole, part;
};
Passes passes_of(double whole, double part, double slower) {
  Passes passes;
  for (int i = 0; i < 20; ++i) {
    const double speed = 1 + 0.01 * (i % 7);
    passes.whole.push_back(whole * speed * slower);
    passes.part.push_back(part * speed * slower);
  }
  return passes;
}

std::string why(const Passes& ours, const Passes& base) {
  return why_no_effect({ours.whole, base.whole}, {ours.part, base.part}, "the forward pass of x");
}

TEST(NoEffect, IsWhatTheDeviceDid) {
  const Passes base = passes_of(3, 1, 1);
  // 2 % more work on a device that is slower by 12 %: whole 14 %, control 12 %. And 2 % less work.
  EXPECT_EQ(why(passes_of(3.06, 1, 1.12), base), "");
  const std::string refused = why(passes_of(2.94, 1, 1.12), base);
  EXPECT_THAT(refused, AllOf(HasSubstr("the forward pass of x, the same work, changed by +12.0 % "
                                       "[+12.0, +12.0]"),
                             HasSubstr("the whole by +9.8 % [+9.8, +9.8]"), HasSubstr("--steady")));
  // Faster, too.
  EXPECT_NE(why(passes_of(3.06, 1, 0.9), base), "");
  EXPECT_EQ(why(passes_of(3.06, 1, 1), base), "");
  EXPECT_EQ(why(base, base), "");
}

/// A control whose interval has 0 did not surely change.
TEST(NoEffect, IsNotRefusedForNoise) {
  const Passes base = passes_of(3, 1, 1);
  Passes ours = passes_of(3.001, 1, 1);
  for (size_t i = 0; i < ours.part.size(); ++i) ours.part[i] *= i % 2 == 0 ? 0.8 : 1.3;
  EXPECT_GT(std::abs((InRounds{ours.part, base.part}.change().value)), 0.001);
  EXPECT_EQ(why(ours, base), "");
}

/// On a virtual clock there is one sample, and no interval.
TEST(NoEffect, OfExactTimes) {
  EXPECT_EQ(why_no_effect({std::vector{3.5}, std::vector{3.0}},
                          {std::vector{1.0}, std::vector{1.0}}, "x"),
            "");
  EXPECT_NE(why_no_effect({std::vector{3.0}, std::vector{3.0}},
                          {std::vector{1.1}, std::vector{1.0}}, "x"),
            "");
}

TEST(Change, IsTheMedianOfTheRounds) {
  const std::vector<double> with = {2, 3, 9}, without = {1, 2, 3};
  const Estimate change = InRounds{with, without}.change();
  EXPECT_DOUBLE_EQ(change.value, 1);
  EXPECT_FALSE(change.interval);
  EXPECT_EQ(signed_percent(change), "+100.0 %");
}

}  // namespace
}  // namespace frugal::harness
