#include "harness/record/rank_statistics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/support/json_file.h"

namespace frugal::harness {
namespace {

/// Ranks of one stage that compute for `base` and what differs from step to step, and wait for the
/// slowest.
std::vector<RankSamples> samples(const std::vector<double>& base) {
  std::vector<RankSamples> ranks(base.size());
  for (int step = 0; step < 9; ++step)
    for (size_t r = 0; r < base.size(); ++r) {
      const double computes = base[r] + 0.001 * ((step * 7 + static_cast<int>(r) * 3) % 9);
      ranks[r].steps.push_back(2);
      ranks[r].waiting.push_back(2 - computes);
    }
  return ranks;
}

TEST(RankStatistics, AreOrderStatistics) {
  const Spread step = rank_statistics({{0, {5, 1, 13, 2, 8}, {0, 0, 0, 0, 0}}}).ranks[0].step;
  EXPECT_EQ((std::array{step.smallest, step.lower, step.median, step.upper, step.largest}),
            (std::array<double, 5>{1, 2, 5, 8, 13}));
}

TEST(RankStatistics, NameARankThatHoldsTheOthersUp) {
  const RankStatistics even = rank_statistics(samples({1, 1, 1, 1}));
  EXPECT_FALSE(even.straggler);
  const RankStatistics uneven = rank_statistics(samples({1, 1, 1.2, 1}));
  ASSERT_TRUE(uneven.straggler);
  EXPECT_EQ(uneven.straggler->rank, 2);
  EXPECT_NEAR(uneven.straggler->slower, 0.2, 0.01);
  EXPECT_GT(uneven.skew.median, 0.19);
  EXPECT_LT(even.skew.largest, 0.01);
  // Slower, but by less than is called so.
  EXPECT_FALSE(rank_statistics(samples({1, 1, 1.03, 1})).straggler);
}

/// Medians of 1 and 3 s, where the others' upper quartile is 2 s and their largest 2.5 s.
TEST(RankStatistics, AStragglerIsSlowerThanTheMedianOfTheOthers) {
  std::vector<RankSamples> ranks(3);
  const std::vector<double> even = {1, 1, 1, 1, 1, 1, 2, 2, 2.5};
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const double computes : even) {
      ranks[r].steps.push_back(4);
      ranks[r].waiting.push_back(r == 1 ? 1 : 4 - computes);
    }
  const RankStatistics statistics = rank_statistics(ranks);
  ASSERT_TRUE(statistics.straggler);
  EXPECT_EQ(statistics.straggler->rank, 1);
  EXPECT_DOUBLE_EQ(statistics.straggler->slower, 3.0 / 1 - 1);
  EXPECT_DOUBLE_EQ(statistics.skew.median, 3 - 1);
  EXPECT_DOUBLE_EQ(statistics.skew.smallest, 3 - 2.5);
  EXPECT_DOUBLE_EQ(statistics.ranks[0].waiting.median, 4 - 1);
  EXPECT_DOUBLE_EQ(statistics.ranks[0].waiting.lower, 4 - 2);
}

TEST(RankStatistics, OtherStagesHaveOtherWork) {
  std::vector<RankSamples> ranks = samples({1, 1.5});
  EXPECT_TRUE(rank_statistics(ranks).straggler);
  ranks[1].stage = 1;
  const RankStatistics statistics = rank_statistics(ranks);
  EXPECT_FALSE(statistics.straggler);
  EXPECT_EQ(statistics.skew.largest, 0);
}

TEST(RankStatistics, AreReadAsTheyWereWritten) {
  const nlohmann::json json = to_json(rank_statistics(samples({1, 1.3, 1})));
  EXPECT_EQ(json.at("straggler").at("rank"), 1);
  EXPECT_EQ(json.at("ranks").size(), 3U);
  const double waits = json.at("ranks").at(0).at("waiting").at("median");
  EXPECT_NEAR(waits, 0.996, 1e-9);
  EXPECT_EQ(to_json(rank_statistics_from_json(JsonObject(json, "record"))), json);
}

}  // namespace
}  // namespace frugal::harness
