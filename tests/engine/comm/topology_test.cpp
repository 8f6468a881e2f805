#include "engine/comm/topology.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "engine/cluster/rank_grid.h"
#include "engine/comm/local.h"

namespace frugal::engine {
namespace {

using ::testing::ElementsAre;

/// Ranks that share a sequence, in one dimension or two.
void share_sequences(ParallelSizes& sizes, int round) {
  sizes.context = 1 + round % 6;
  sizes.heads = sizes.context % 2 == 0 && round % 4 == 1 ? 2 : 1;
}

/// One of the numbers of ranks that can divide what all have.
int random_shards(const ParallelSizes& sizes, std::mt19937& random) {
  const int all = sizes.context * sizes.data;
  std::vector<int> divisors;
  for (int size = 1; size <= all; ++size)
    if (all % size == 0) divisors.push_back(size);
  return divisors[std::uniform_int_distribution<size_t>(0, divisors.size() - 1)(random)];
}

ParallelSizes random_sizes(std::mt19937& random) {
  std::uniform_int_distribution<int> size(1, 6);
  return {.tensor = size(random), .data = size(random), .stages = size(random)};
}

int stage_of(const Topology& topology, int rank) { return topology.coordinate("stages", rank); }

TEST(Topology, GroupsByHand) {
  const Topology topology({.tensor = 2, .data = 3, .stages = 4});
  const int rank = 11;  // stage 1, replica 2, tensor 1
  EXPECT_THAT(topology.members(group::tensor, rank), ElementsAre(10, 11));
  EXPECT_THAT(topology.members(group::data, rank), ElementsAre(7, 9, 11));
  EXPECT_THAT(topology.members(group::stages, rank), ElementsAre(5, 11, 17, 23));
  EXPECT_THAT(topology.members(group::ends, rank), ElementsAre(5, 23));
}

TEST(Topology, PartsOfASequenceInTwoDimensionsByHand) {
  const Topology topology({.tensor = 2, .context = 6, .heads = 3, .data = 2});
  const int rank = 21;  // replica 1, context 4, tensor 1
  EXPECT_THAT(topology.members(group::context, rank), ElementsAre(13, 15, 17, 19, 21, 23));
  EXPECT_THAT(topology.members(group::heads, rank), ElementsAre(19, 21, 23));
  EXPECT_THAT(topology.members(group::ring, rank), ElementsAre(15, 21));
}

/// Experts are divided among ranks of several replicas and parts of tensors: an axis across those
/// that the grid has.
TEST(Topology, AGroupIsOneLine) {
  constexpr GroupSpec experts{.name = "experts", .axes = {"experts"}, .stream = streams::replicas};

  Topology topology({.tensor = 2, .data = 4, .stages = 2});
  topology.divide_again("tensor", {{"experts", 4}, {"expert copies", 2}});
  EXPECT_THAT(topology.members(experts, 14), ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(topology.on_nodes(experts, 1, 2).per_node, 2);
  RankGrid grid(topology,
                [](const GroupSpec& spec, const std::vector<int>& ranks) {
                  EXPECT_EQ(spec.name, "experts");
                  return std::make_unique<LocalGroup>(static_cast<int>(ranks.size()));
                },
                {}, {&experts, 1});
  std::vector<float> sums(16);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 16; ++rank)
    threads.emplace_back([&, rank] {
      float& own = sums[static_cast<size_t>(rank)] = static_cast<float>(rank);
      grid.communicator(rank, experts).all_reduce({&own, DType::f32, {1}}).wait();
    });
  threads.clear();
  for (size_t rank = 0; rank < sums.size(); ++rank)
    EXPECT_EQ(sums[rank], 6 + 16 * static_cast<float>(rank / 4)) << rank;
}

TEST(Topology, NamesAnAxisThatItLacks) {
  const GroupSpec unknown{.name = "experts", .axes = {"experts"}};
  EXPECT_THROW((void)Topology(ParallelSizes{}).size(unknown), std::logic_error);
}

TEST(Topology, GroupsOfAnAxisDivideTheRanks) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    ParallelSizes sizes = random_sizes(random);
    share_sequences(sizes, round);
    sizes.shards = random_shards(sizes, random);
    const Topology topology(sizes);
    for (const GroupSpec& group : all_groups) {
      std::set<std::vector<int>> groups;
      std::vector<int> covered;
      for (int rank = 0; rank < topology.ranks(); ++rank) {
        const std::vector<int> members = topology.members(group, rank);
        EXPECT_EQ(std::ssize(members), topology.size(group));
        const int stage = stage_of(topology, rank);
        const bool between = group.ends && stage > 0 && stage + 1 < sizes.stages;
        EXPECT_EQ(std::ranges::count(members, rank), between ? 0 : 1);
        if (groups.insert(members).second)
          covered.insert(covered.end(), members.begin(), members.end());
      }
      std::sort(covered.begin(), covered.end());
      EXPECT_EQ(std::adjacent_find(covered.begin(), covered.end()), covered.end());
      const bool middle = group.ends && sizes.stages > 2;
      const int expected = middle ? topology.ranks_of_stage() * 2 : topology.ranks();
      EXPECT_EQ(std::ssize(covered), expected);
    }
  }
}

/// Against the definition, rank by rank: the fewest that any group of the stage has on its fullest
/// node.
TEST(Topology, GroupsOnNodes) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    ParallelSizes sizes = random_sizes(random);
    share_sequences(sizes, round);
    sizes.shards = random_shards(sizes, random);
    const Topology topology(sizes);
    const int devices = std::uniform_int_distribution<int>(1, 9)(random);
    for (const GroupSpec& group : all_groups) {
      for (int stage = 0; stage < topology.stages(); ++stage) {
        std::ptrdiff_t fewest = topology.ranks();
        for (int rank = 0; rank < topology.ranks(); ++rank) {
          if (stage_of(topology, rank) != stage) continue;
          const std::vector<int> ranks = topology.members(group, rank);
          std::ptrdiff_t fullest = 0;
          for (int node = 0; node <= topology.ranks() / devices; ++node)
            fullest = std::max(fullest, std::count_if(ranks.begin(), ranks.end(),
                                                      [&](int m) { return m / devices == node; }));
          fewest = std::min(fewest, fullest);
        }
        const CostModel::Group members = topology.on_nodes(group, stage, devices);
        EXPECT_EQ(members.size, topology.size(group));
        EXPECT_EQ(members.per_node, fewest);
      }
    }
  }
}

/// Against the definition, rank by rank.
TEST(Topology, SendersOnNodes) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const Topology topology(random_sizes(random));
    const int devices = std::uniform_int_distribution<int>(1, 9)(random);
    for (int from = 0; from < topology.stages(); ++from)
      for (int to = 0; to < topology.stages(); ++to) {
        std::vector<int> leaving(static_cast<size_t>(topology.ranks() / devices + 1));
        for (int rank = 0; rank < topology.ranks(); ++rank) {
          if (stage_of(topology, rank) != from) continue;
          const int peer = rank + (to - from) * topology.ranks_of_stage();
          if (rank / devices != peer / devices) ++leaving[static_cast<size_t>(rank / devices)];
        }
        EXPECT_EQ(topology.senders(from, to, devices),
                  *std::max_element(leaving.begin(), leaving.end()));
      }
  }
}

TEST(Topology, SendersOfANode) {
  EXPECT_EQ(Topology({.tensor = 2, .data = 2, .stages = 4}).senders(0, 1, 8), 0);
  EXPECT_EQ(Topology({.tensor = 2, .data = 2, .stages = 4}).senders(1, 2, 8), 4);
  EXPECT_EQ(Topology({.tensor = 2, .data = 2, .stages = 4}).senders(2, 1, 8), 4);
  EXPECT_EQ(Topology({.tensor = 8, .data = 4, .stages = 2}).senders(0, 1, 8), 8);
  EXPECT_EQ(Topology({.tensor = 1, .data = 1, .stages = 16}).senders(7, 8, 8), 1);
  EXPECT_EQ(Topology({.tensor = 3, .data = 1, .stages = 4}).senders(2, 3, 8), 2)
      << "ranks 6 and 7 leave their node, rank 8 does not";
}

TEST(Topology, ExchangingOfANode) {
  // Two stages on a node: the first exchanges with the node before, the second with the next.
  const Topology two({.data = 4, .stages = 4}), three({.data = 4, .stages = 6});
  EXPECT_EQ(two.exchanging(0, 1, 8), 0) << "on one node";
  EXPECT_EQ(two.exchanging(1, 2, 8), 4) << "the stages at the ends exchange with no other node";
  EXPECT_EQ(three.exchanging(1, 2, 8), 8) << "stages 2 and 3, and only one on the other node";
  EXPECT_EQ(three.exchanging(4, 3, 8), 8);
  EXPECT_EQ(Topology({.data = 8, .stages = 3}).exchanging(1, 2, 8), 8);
  EXPECT_EQ(Topology({.data = 16, .stages = 4}).exchanging(0, 1, 8), 8) << "a stage on two nodes";
  EXPECT_EQ(Topology(ParallelSizes{.stages = 16}).exchanging(7, 8, 8), 1);
  EXPECT_EQ(Topology(ParallelSizes{.stages = 24}).exchanging(7, 8, 8), 2) << "stages 8 and 15";
}

}  // namespace
}  // namespace frugal::engine
