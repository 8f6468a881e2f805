// Which contender is chosen, by a clock that is not a GPU's: what is loaded first, noise, failures,
// and what it takes at most.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/algorithms.h"

namespace frugal::kernels {
namespace {

using cuda::Execution;
using cuda::fastest;

struct Contender {
  float milliseconds = 1;
  float loading = 0;     ///< milliseconds before its first execution
  int fails_after = -1;  ///< executions, none: never
};

class FakeClock {
 public:
  explicit FakeClock(std::vector<Contender> contenders, float noise = 0, unsigned seed = 1)
      : contenders_(std::move(contenders)),
        times_(contenders_.size()),
        noise_(noise),
        draw_(seed) {}

  std::optional<size_t> choose() {
    return fastest(contenders_.size(), [this](size_t i) { return execute(i); });
  }
  /// Number of executions of each.
  const std::vector<int>& times() const { return times_; }
  float executing() const { return executing_; }  ///< milliseconds, without loading

 private:
  std::optional<Execution> execute(size_t i) {
    const Contender& contender = contenders_.at(i);
    const int before = times_[i]++;
    if (before == contender.fails_after) return std::nullopt;
    constexpr float launch = 0.003F;
    const float loading = before == 0 ? contender.loading : 0;
    // Another program's, or the host's: it never makes anything faster.
    const float late = noise_ * std::exponential_distribution<float>(1)(draw_);
    const float took = contender.milliseconds * (1 + late);
    executing_ += took;
    return Execution{loading + took, loading + launch};
  }

  std::vector<Contender> contenders_;
  std::vector<int> times_;
  float noise_, executing_ = 0;
  std::mt19937 draw_;
};

std::vector<Contender> alike(size_t count, float milliseconds) {
  return std::vector<Contender>(count, {.milliseconds = milliseconds});
}

/// Products of 16384³: 11 ms each, beside modules that take longer to load.
TEST(FastestTest, LoadingIsNotTimed) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 draw(seed);
    std::vector<Contender> contenders;
    for (int i = 0; i < 12; ++i)
      contenders.push_back({.milliseconds = std::uniform_real_distribution<float>(11, 14)(draw),
                            .loading = std::uniform_real_distribution<float>(1, 400)(draw)});
    const size_t best = seed % contenders.size();
    contenders[best].milliseconds = 10;
    contenders[best].loading = 500;
    EXPECT_EQ(FakeClock(contenders).choose(), best);
  }
}

TEST(FastestTest, LoadingOfSmallOnesIsNotTimedEither) {
  std::vector<Contender> contenders = alike(12, 0.02F);
  for (Contender& a : contenders) a.loading = 30;
  contenders[11].milliseconds = 0.01F;
  EXPECT_EQ(FakeClock(contenders).choose(), 11);
}

/// The least of several times is hardly disturbed by what only makes things slower.
TEST(FastestTest, FindsTheBestAmongNoise) {
  for (const float milliseconds : {0.005F, 0.2F, 1.5F}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::vector<Contender> contenders = alike(12, 1.3F * milliseconds);
      contenders[seed % 12] = {.milliseconds = milliseconds, .loading = 20};
      FakeClock clock(contenders, 0.1F, seed);
      EXPECT_EQ(clock.choose(), seed % 12) << milliseconds;
    }
  }
}

TEST(FastestTest, LeavesOutWhatFails) {
  std::vector<Contender> contenders = alike(5, 2);
  contenders[0] = {.milliseconds = 1, .fails_after = 0};
  contenders[2] = {.milliseconds = 1, .fails_after = 1};  // when it is timed
  contenders[3].milliseconds = 1.5F;
  FakeClock clock(contenders);
  EXPECT_EQ(clock.choose(), 3);
  EXPECT_EQ(clock.times()[0], 1);
  EXPECT_EQ(clock.times()[2], 2);
}

TEST(FastestTest, NothingIsChosenWhereAllFail) {
  std::vector<Contender> contenders = alike(4, 1);
  for (Contender& a : contenders) a.fails_after = 0;
  EXPECT_EQ(FakeClock(contenders).choose(), std::nullopt);
  for (Contender& a : contenders) a.fails_after = 1;
  EXPECT_EQ(FakeClock(contenders).choose(), std::nullopt);
  EXPECT_EQ(FakeClock({}).choose(), std::nullopt);
  EXPECT_EQ(FakeClock(alike(1, 1)).choose(), 0);
}

/// No execution can be broken off, but none has to be made twice.
TEST(FastestTest, WhatIsHopelessIsExecutedOnce) {
  for (const size_t place : {0, 1, 5, 11}) {
    std::vector<Contender> contenders = alike(12, 11);
    for (Contender& a : contenders) a.loading = 60;
    contenders[place].milliseconds = 3000;
    contenders[2].milliseconds = 9;
    FakeClock clock(contenders);
    EXPECT_EQ(clock.choose(), 2);
    EXPECT_EQ(clock.times()[place], 1);
  }
}

/// Every candidate has one round, and who is not far behind another where they take little.
TEST(FastestTest, TimesAllOnceAndTheSmallOnesOften) {
  for (const auto& [milliseconds, times] : {std::pair{11.0F, 2}, {0.01F, 6}}) {
    FakeClock clock(alike(12, milliseconds));
    clock.choose();
    EXPECT_EQ(clock.times(), std::vector<int>(12, times)) << milliseconds;
  }
}

TEST(FastestTest, IsBoundedInTimeAndTimes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 draw(seed);
    const float magnitude = std::exp(std::uniform_real_distribution<float>(-6, 6)(draw));
    std::vector<Contender> contenders;
    float longest = 0;
    for (int i = 0; i < 12; ++i) {
      const float milliseconds =
          magnitude * std::exp(std::exponential_distribution<float>(1)(draw));
      contenders.push_back({.milliseconds = milliseconds, .loading = 50});
      longest = std::max(longest, milliseconds);
    }
    FakeClock clock(contenders);
    ASSERT_TRUE(clock.choose());
    EXPECT_LE(*std::max_element(clock.times().begin(), clock.times().end()), 6);
    EXPECT_LE(clock.executing(), std::max(700 + 2 * longest, 6 * longest)) << seed;
  }
}

}  // namespace
}  // namespace frugal::kernels
