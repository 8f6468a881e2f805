#include "engine/cluster/cluster.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "kernels/cpu/cores.h"
#include "kernels/support/error.h"
#include "kernels/virtual/machine.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RunConfig config(int ranks) {
  RunConfig c;
  c.model = {"tiny", 2, 48, 12, 24, 96, 0, true};
  c.tensor_parallel = ranks;
  return c;
}

TEST(CpuCluster, PinsRanksToCoresOfTheirOwn) {
  const Processors all = processors_of_this_thread();
  for (const int ranks : {1, 2, 4}) {
    const auto make = [&] {
      return make_cpu_cluster(config(ranks), ranks, LocalGroup::default_deadline,
                              cores_of_ranks(config(ranks), ranks));
    };
    std::unique_ptr<Cluster> cluster;
    try {
      cluster = make();
    } catch (const InputError&) {
      GTEST_LOG_(INFO) << "fewer than " << ranks << " cores";
      continue;
    }
    std::vector<Processors> own(static_cast<size_t>(ranks));
    cluster->run([&](Rank& rank) {
      own[static_cast<size_t>(rank.tensor_group.rank())] = processors_of_this_thread();
    });
    std::set<int> used;
    for (const Processors& processors : own) {
      ASSERT_EQ(processors.size(), 1U);
      EXPECT_TRUE(used.insert(processors[0]).second) << "two ranks on one core";
    }
  }
  EXPECT_EQ(processors_of_this_thread(), all) << "the caller runs where it did";
}

TEST(CpuCluster, RefusesToPinMoreThanThereAreCores) {
  EXPECT_THAT(message_of<InputError>([] { (void)cores_of_ranks(config(2), 1 << 20); }),
              AllOf(HasSubstr("2 ranks of 524288 threads"), HasSubstr("need 1048576 cores")));
}

TEST(CpuCluster, RunsEveryRankAndKeepsThem) {
  for (const int ranks : {1, 2, 4}) {
    const auto cluster = make_cpu_cluster(config(ranks), 2);
    ASSERT_EQ(cluster->local_ranks(), ranks);
    Tensor kept;
    for (int round = 0; round < 3; ++round) {
      std::atomic<int> sum{0};
      cluster->run([&](Rank& rank) {
        std::vector<float> data(3, 1.0F + static_cast<float>(rank.tensor_group.rank()));
        rank.tensor_group.all_reduce({data.data(), DType::f32, {3}}).wait();
        EXPECT_EQ(data[2], static_cast<float>(ranks * (ranks + 1) / 2));
        sum += rank.tensor_group.rank() + 1;
        if (round == 0 && rank.tensor_group.rank() == 0) kept = rank.allocate({5}, Kind::parameter);
        EXPECT_EQ(&rank, &cluster->rank(rank.tensor_group.rank()));
      });
      EXPECT_EQ(sum.load(), ranks * (ranks + 1) / 2);
    }
    EXPECT_EQ(cluster->rank(0).ledger.current(Kind::parameter), 20);
    kept.release();
  }
}

TEST(CpuCluster, TheCauseIsThrownAndTheClusterCanBeUsedAgain) {
  const auto cluster = make_cpu_cluster(config(4), 1);
  const auto body = [](Rank& rank) {
    if (rank.tensor_group.rank() == 2) throw OutOfMemory("no room", 10, 0, 5);
    rank.tensor_group.barrier();
  };
  EXPECT_THROW(cluster->run(body), OutOfMemory);
  EXPECT_NO_THROW(cluster->run([](Rank& rank) { rank.tensor_group.barrier(); }));
  const auto alone = make_cpu_cluster(config(1), 1);
  EXPECT_THROW(alone->run([](Rank&) { throw WrongNumbers("not finite"); }), WrongNumbers);
}

TEST(CpuCluster, ARankThatNeverEndsIsSaidByTheCauseNotByItsConsequences) {
  const auto cluster = make_cpu_cluster(config(3), 3, 0.2);
  std::atomic<bool> end = false;
  std::vector<Failure> said;
  on_stuck_rank() = [&](const Failure& failure) {
    said.push_back(failure);
    end = true;
  };
  const auto body = [&](Rank& rank) {
    const int r = rank.tensor_group.rank();
    while (r == 1 && !end) std::this_thread::yield();
    if (r == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    try {
      rank.tensor_group.barrier();
    } catch (const DeadlinePassed&) {  // rank 2, which came first; rank 0 ends before it
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw;
    }
  };
  EXPECT_THROW(cluster->run(body), DeadlinePassed);
  on_stuck_rank() = nullptr;
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].kind, Failure::Kind::deadline);
  EXPECT_THAT(said[0].reason, HasSubstr("rank 1 is late"));
}

TEST(VirtualCluster, OneRankStandsForAll) {
  const auto cluster = make_virtual_cluster(config(4), find_machine("a100-selene"));
  EXPECT_EQ(cluster->local_ranks(), 1);
  int runs = 0;
  cluster->run([&](Rank& rank) {
    ++runs;
    EXPECT_EQ(rank.tensor_group.size(), 4);
    EXPECT_FALSE(rank.device.backed());
    const Tensor x = rank.allocate({1000});
    rank.tensor_group.all_reduce(x).wait();
    EXPECT_GT(rank.device.now(), 0);
  });
  EXPECT_EQ(runs, 1);
  EXPECT_THROW(cluster->rank(1), std::out_of_range);
  EXPECT_THROW(cluster->run([](Rank& rank) { (void)rank.allocate({int64_t{1} << 40}); }),
               OutOfMemory);
}

TEST(Clusters, RefuseBadConfigurations) {
  EXPECT_THROW((void)make_cpu_cluster(config(5), 1), InputError);
  EXPECT_THROW((void)make_virtual_cluster(config(5), find_machine("a100-selene")), InputError);
}

}  // namespace
}  // namespace frugal::engine
