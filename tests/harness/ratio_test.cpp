#include "harness/compare/ratio.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace frugal::harness {
namespace {

/// Processes whose times vary from one to the next, and samples that vary less within each.
struct Noise {
  std::mt19937_64 random{11};

  ProcessSamples processes(size_t count, double factor, double between, double within) {
    std::normal_distribution<double> normal;
    ProcessSamples all(count);
    for (auto& samples : all) {
      const double level = factor * std::exp(between * normal(random));
      for (int i = 0; i < 20; ++i) samples.push_back(level * std::exp(within * normal(random)));
    }
    return all;
  }
};

TEST(Ratio, IsThatOfTheMediansOfProcesses) {
  const ProcessSamples base = {{1, 2, 3}, {4}, {10, 10}};  // medians 2, 4, 10
  const ProcessSamples candidate = {{6}, {7, 9}};          // 6, 8
  const Estimate ratio = ratio_of_medians(base, candidate);
  EXPECT_DOUBLE_EQ(ratio.value, 7. / 4);
  EXPECT_FALSE(ratio.interval);  // of two processes there is none, however many samples they took
}

TEST(Ratio, CoversTheTruthThoughSamplesOfAProcessAgree) {
  // An interval of all samples together would be a tenth as wide, and mostly miss.
  Noise noise;
  int covered = 0;
  constexpr int trials = 300;
  for (int i = 0; i < trials; ++i) {
    const auto ratio = ratio_of_medians(noise.processes(12, 1, 0.05, 0.005),
                                        noise.processes(12, 1.1, 0.05, 0.005));
    covered += ratio.interval->low <= 1.1 && 1.1 <= ratio.interval->high ? 1 : 0;
  }
  // 95 %, within three deviations of so many trials, and what a bootstrap of medians lacks at most.
  EXPECT_GE(covered, 0.91 * trials);
  EXPECT_LE(covered, 0.995 * trials);
}

TEST(Ratio, ByTurnsCancelsWhatSlowedBothDown) {
  Noise noise;
  ProcessSamples base = noise.processes(12, 1, 0.2, 0.002), candidate = base;
  for (auto& samples : candidate)
    for (double& x : samples) x *= 1.05;
  const auto width = [](const Estimate& ratio) {
    return ratio.interval->high - ratio.interval->low;
  };
  const Estimate by_turns = ratio_of_turns(log_ratios_of_turns(base, candidate));
  EXPECT_NEAR(by_turns.value, 1.05, 1e-9);
  EXPECT_LT(width(by_turns), 1e-9);
  EXPECT_GT(width(ratio_of_medians(base, candidate)), 0.1);
}

TEST(Ratio, OfATurnIsThatOfItsProcessesMedians) {
  const std::vector<double> ratios =
      log_ratios_of_turns({{1, 2, 9}, {4}}, {{8, 7, 5}, {2, 2.5, 1}});
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_DOUBLE_EQ(ratios[0], std::log(7. / 2));
  EXPECT_DOUBLE_EQ(ratios[1], std::log(2. / 4));
}

TEST(Ratio, NeedsSamplesOfEveryProcess) {
  EXPECT_THROW(ratio_of_medians({}, {{1}}), std::invalid_argument);
  EXPECT_THROW(ratio_of_medians({{1}}, {{}}), std::invalid_argument);
  EXPECT_THROW(log_ratios_of_turns({{1}}, {{1}, {1}}), std::invalid_argument);
}

}  // namespace
}  // namespace frugal::harness
