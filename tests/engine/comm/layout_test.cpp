#include "engine/comm/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace frugal::engine {
namespace {

using ::testing::ElementsAre;

constexpr Axis axes[] = {Axis::tensor, Axis::context, Axis::heads,  Axis::ring, Axis::data,
                         Axis::shards, Axis::copies,  Axis::stages, Axis::ends};

/// Ranks that share a sequence, in one dimension or two.
void share_sequences(Layout& layout, int round) {
  layout.context = 1 + round % 6;
  layout.heads = layout.context % 2 == 0 && round % 4 == 1 ? 2 : 1;
}

/// One of the numbers of ranks that can divide what all have.
int random_shards(const Layout& layout, std::mt19937& random) {
  const int all = layout.context * layout.data;
  std::vector<int> sizes;
  for (int size = 1; size <= all; ++size)
    if (all % size == 0) sizes.push_back(size);
  return sizes[std::uniform_int_distribution<size_t>(0, sizes.size() - 1)(random)];
}

Layout random_layout(std::mt19937& random) {
  std::uniform_int_distribution<int> size(1, 6);
  return {.tensor = size(random), .data = size(random), .stages = size(random)};
}

TEST(Layout, NumbersPartsThenReplicasThenStages) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const Layout layout = random_layout(random);
    int next = 0;
    for (int stage = 0; stage < layout.stages; ++stage) {
      for (int replica = 0; replica < layout.data; ++replica) {
        for (int part = 0; part < layout.tensor; ++part, ++next) {
          const RankPlace place{.stage = stage, .replica = replica, .tensor = part};
          EXPECT_EQ(layout.rank(place), next);
          EXPECT_EQ(layout.place(next), place);
        }
      }
    }
    EXPECT_EQ(layout.ranks(), next);
  }
}

TEST(Layout, GroupsByHand) {
  const Layout layout{.tensor = 2, .data = 3, .stages = 4};
  const RankPlace place{.stage = 1, .replica = 2, .tensor = 1};  // rank 11
  EXPECT_THAT(layout.members(Axis::tensor, place), ElementsAre(10, 11));
  EXPECT_THAT(layout.members(Axis::data, place), ElementsAre(7, 9, 11));
  EXPECT_THAT(layout.members(Axis::stages, place), ElementsAre(5, 11, 17, 23));
  EXPECT_THAT(layout.members(Axis::ends, place), ElementsAre(5, 23));
  EXPECT_EQ(layout.index(Axis::tensor, place), 1);
  EXPECT_EQ(layout.index(Axis::data, place), 2);
  EXPECT_EQ(layout.index(Axis::stages, place), 1);
  EXPECT_EQ(layout.index(Axis::ends, place), -1) << "stage 1 of 4 is in the middle";
}

TEST(Layout, PartsOfASequenceInTwoDimensionsByHand) {
  const Layout layout{.tensor = 2, .context = 6, .heads = 3, .data = 2};
  const RankPlace place{.replica = 1, .tensor = 1, .context = 4};  // rank 21
  EXPECT_THAT(layout.members(Axis::context, place), ElementsAre(13, 15, 17, 19, 21, 23));
  EXPECT_THAT(layout.members(Axis::heads, place), ElementsAre(19, 21, 23));
  EXPECT_THAT(layout.members(Axis::ring, place), ElementsAre(15, 21));
  EXPECT_EQ(layout.index(Axis::heads, place), 1);
  EXPECT_EQ(layout.index(Axis::ring, place), 1);
}

/// Two nodes of eight: heads are exchanged within a node, and each rank's keys go to the other one.
TEST(Layout, PartsOfASequenceOnNodes) {
  const Layout layout{.context = 16, .heads = 8};
  EXPECT_EQ(layout.group(Axis::context, 0, 8).per_node, 8);
  EXPECT_EQ(layout.group(Axis::heads, 0, 8).per_node, 8);
  EXPECT_EQ(layout.group(Axis::heads, 0, 8).nodes(), 1);
  EXPECT_EQ(layout.group(Axis::ring, 0, 8).per_node, 1);
}

TEST(Layout, AStageAloneIsBothEnds) {
  const Layout layout{.tensor = 2, .data = 2, .stages = 1};
  EXPECT_THAT(layout.members(Axis::ends, layout.place(3)), ElementsAre(3));
  EXPECT_EQ(layout.index(Axis::ends, layout.place(3)), 0);
}

TEST(Layout, GroupsOfAnAxisDivideTheRanks) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    Layout layout = random_layout(random);
    share_sequences(layout, round);
    layout.shards = random_shards(layout, random);
    for (const Axis axis : axes) {
      std::set<std::vector<int>> groups;
      std::vector<int> covered;
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const RankPlace place = layout.place(rank);
        const std::vector<int> members = layout.members(axis, place);
        EXPECT_EQ(std::ssize(members), layout.size(axis));
        const int index = layout.index(axis, place);
        if (index >= 0) {
          EXPECT_EQ(members.at(static_cast<size_t>(index)), rank);
        }
        if (groups.insert(members).second)
          covered.insert(covered.end(), members.begin(), members.end());
      }
      std::sort(covered.begin(), covered.end());
      EXPECT_EQ(std::adjacent_find(covered.begin(), covered.end()), covered.end());
      const bool middle = axis == Axis::ends && layout.stages > 2;
      const int expected = middle ? layout.ranks() / layout.stages * 2 : layout.ranks();
      EXPECT_EQ(std::ssize(covered), expected);
    }
  }
}

/// Against the definition, rank by rank: the fewest that any group of the stage has on its fullest
/// node.
TEST(Layout, GroupsOnNodes) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    Layout layout = random_layout(random);
    share_sequences(layout, round);
    layout.shards = random_shards(layout, random);
    const int devices = std::uniform_int_distribution<int>(1, 9)(random);
    for (const Axis axis : axes) {
      for (int stage = 0; stage < layout.stages; ++stage) {
        std::ptrdiff_t fewest = layout.ranks();
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          if (layout.place(rank).stage != stage) continue;
          const std::vector<int> members = layout.members(axis, layout.place(rank));
          std::ptrdiff_t fullest = 0;
          for (int node = 0; node <= layout.ranks() / devices; ++node)
            fullest = std::max(fullest, std::count_if(members.begin(), members.end(),
                                                      [&](int m) { return m / devices == node; }));
          fewest = std::min(fewest, fullest);
        }
        const CostModel::Group group = layout.group(axis, stage, devices);
        EXPECT_EQ(group.size, layout.size(axis));
        EXPECT_EQ(group.per_node, fewest);
      }
    }
  }
}

/// What is usual: everything a power of two.
TEST(Layout, GroupsOnNodesByHand) {
  const auto per_node = [](const Layout& layout, Axis axis) {
    return layout.group(axis, 0, 8).per_node;
  };
  const Layout wide{.tensor = 2, .data = 16, .stages = 4};
  EXPECT_EQ(per_node(wide, Axis::tensor), 2);
  EXPECT_EQ(per_node(wide, Axis::data), 4) << "4 replicas of 2 parts fill a node";
  EXPECT_EQ(per_node(wide, Axis::stages), 1);
  const Layout deep{.tensor = 1, .data = 2, .stages = 16};
  EXPECT_EQ(per_node(deep, Axis::data), 2);
  EXPECT_EQ(per_node(deep, Axis::stages), 4);
  EXPECT_EQ(per_node(deep, Axis::ends), 1);
  const Layout large{.tensor = 16, .data = 4, .stages = 1};
  EXPECT_EQ(per_node(large, Axis::tensor), 8);
  EXPECT_EQ(per_node(large, Axis::data), 1);
  // Stage 0 has a node of its own; stage 1 lies on two.
  const Layout odd{.tensor = 1, .data = 6, .stages = 2};
  EXPECT_EQ(odd.group(Axis::data, 0, 8).per_node, 6);
  EXPECT_EQ(odd.group(Axis::data, 1, 8).per_node, 4);
}

/// Against the definition, rank by rank.
TEST(Layout, SendersOnNodes) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const Layout layout = random_layout(random);
    const int devices = std::uniform_int_distribution<int>(1, 9)(random);
    for (int from = 0; from < layout.stages; ++from)
      for (int to = 0; to < layout.stages; ++to) {
        std::vector<int> leaving(static_cast<size_t>(layout.ranks() / devices + 1));
        for (int rank = 0; rank < layout.ranks(); ++rank) {
          RankPlace place = layout.place(rank);
          if (place.stage != from) continue;
          place.stage = to;
          if (rank / devices != layout.rank(place) / devices)
            ++leaving[static_cast<size_t>(rank / devices)];
        }
        EXPECT_EQ(layout.senders(from, to, devices),
                  *std::max_element(leaving.begin(), leaving.end()));
      }
  }
}

TEST(Layout, SendersOfANode) {
  EXPECT_EQ((Layout{.tensor = 2, .data = 2, .stages = 4}).senders(0, 1, 8), 0);
  EXPECT_EQ((Layout{.tensor = 2, .data = 2, .stages = 4}).senders(1, 2, 8), 4);
  EXPECT_EQ((Layout{.tensor = 2, .data = 2, .stages = 4}).senders(2, 1, 8), 4);
  EXPECT_EQ((Layout{.tensor = 8, .data = 4, .stages = 2}).senders(0, 1, 8), 8);
  EXPECT_EQ((Layout{.tensor = 1, .data = 1, .stages = 16}).senders(7, 8, 8), 1);
  EXPECT_EQ((Layout{.tensor = 3, .data = 1, .stages = 4}).senders(2, 3, 8), 2)
      << "ranks 6 and 7 leave their node, rank 8 does not";
}

TEST(Layout, ExchangingOfANode) {
  // Two stages on a node: the first exchanges with the node before, the second with the next.
  const Layout two{.data = 4, .stages = 4}, three{.data = 4, .stages = 6};
  EXPECT_EQ(two.exchanging(0, 1, 8), 0) << "on one node";
  EXPECT_EQ(two.exchanging(1, 2, 8), 4) << "the stages at the ends exchange with no other node";
  EXPECT_EQ(three.exchanging(1, 2, 8), 8) << "stages 2 and 3, and only one on the other node";
  EXPECT_EQ(three.exchanging(4, 3, 8), 8);
  EXPECT_EQ((Layout{.data = 8, .stages = 3}).exchanging(1, 2, 8), 8);
  EXPECT_EQ((Layout{.data = 16, .stages = 4}).exchanging(0, 1, 8), 8) << "a stage on two nodes";
  EXPECT_EQ((Layout{.stages = 16}).exchanging(7, 8, 8), 1);
  EXPECT_EQ((Layout{.stages = 24}).exchanging(7, 8, 8), 2) << "stages 8 and 15";
}

}  // namespace
}  // namespace frugal::engine
