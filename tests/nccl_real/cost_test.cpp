// What a collective costs the host, which a GPU that ranks share does not change much.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/nccl/cluster.h"

namespace frugal::engine {
namespace {

/// Sums of ones, each twice the one before it, between two looks at the clock: nothing is waited
/// for but what NCCL's call itself waits for.
TEST(NcclCostOnGpus, OfACallIsSaid) {
  constexpr int calls = 20, rounds = 11;
  const auto cluster = make_cuda_cluster(testing::of_ranks(2), 60);
  std::vector<double> microseconds;
  cluster->run([&](Rank& rank) {
    using std::chrono::steady_clock;
    Communicator& group = rank.tensor_group;
    const Tensor data = rank.allocate(DType::f32, {8});
    for (int round = 0; round < rounds; ++round) {
      rank.run(Fill{data, 1});
      rank.device.synchronize();
      group.barrier();
      const auto begin = steady_clock::now();
      for (int i = 0; i < calls; ++i) group.all_reduce(data).wait();
      const std::chrono::duration<double, std::micro> taken = steady_clock::now() - begin;
      if (group.rank() == 0) microseconds.push_back(taken.count() / calls);
      EXPECT_EQ(testing::read<float>(rank, data), std::vector<float>(8, 1 << calls));
    }
  });
  std::nth_element(microseconds.begin(), microseconds.begin() + rounds / 2, microseconds.end());
  fmt::print("all-reduce of 8 f32: {:.1f} µs of the host, median of {} rounds\n",
             microseconds[rounds / 2], rounds);
}

}  // namespace
}  // namespace frugal::engine
