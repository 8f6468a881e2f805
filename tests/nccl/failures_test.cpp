#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>

#include "kernels/support/error.h"
#include "tests/nccl/cluster.h"
#include "tests/nccl/setting.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using testing::of_ranks;

void reduce(Rank& rank) {
  const Tensor data = testing::write<float>(rank, std::vector<float>(8, 1));
  rank.tensor_group.all_reduce(data).wait();
  rank.device.synchronize();
}

void expect_usable(Cluster& cluster) {
  cluster.run([](Rank& rank) {
    const Tensor data = testing::write<float>(rank, {1});
    rank.tensor_group.all_reduce(data).wait();
    EXPECT_EQ(testing::read<float>(rank, data).front(), rank.tensor_group.size());
  });
}

/// Wherever the others are when a rank fails: connecting, waiting for their device, or done.
TEST(NcclFailure, TheCauseIsThrownAndTheOthersWakeUp) {
  const int ranks = std::min(4, testing::most_ranks());
  const auto cluster = make_cuda_cluster(of_ranks(ranks));
  for (int collectives = 0; collectives < 3; ++collectives) {
    std::array<std::atomic<bool>, 4> woken{};
    const auto body = [&](Rank& rank) {
      const int self = rank.tensor_group.rank();
      try {
        for (int i = 0; i < collectives; ++i) reduce(rank);
        if (self == 1) throw OutOfMemory("no room", 10, 0, 5);
        if (self == 2 && collectives > 0) return;
        reduce(rank);
      } catch (const PeerLost& e) {
        EXPECT_STREQ(e.what(), "no room");
        woken[static_cast<size_t>(self)] = true;
        throw;
      }
    };
    EXPECT_EQ(message_of<OutOfMemory>([&] { cluster->run(body); }), "no room");
    EXPECT_TRUE(woken[0] && (ranks < 4 || woken[3]));
    expect_usable(*cluster);
  }
}

TEST(NcclFailure, AfterAnAbortEveryCallSaysWhy) {
  const auto cluster = make_cuda_cluster(of_ranks(2));
  std::barrier both(2);  // the group's own may learn of what comes behind it
  cluster->run([&both](Rank& rank) {
    const Tensor data = rank.allocate(DType::f32, {8});
    Pending pending = rank.tensor_group.all_reduce(data);
    rank.device.synchronize();
    both.arrive_and_wait();
    if (rank.tensor_group.rank() == 0) rank.tensor_group.abort("enough");
    both.arrive_and_wait();
    EXPECT_THROW(pending.wait(), PeerLost);
    EXPECT_THROW((void)rank.tensor_group.all_reduce(data), PeerLost);
    EXPECT_THROW(rank.tensor_group.barrier(), PeerLost);
  });
  expect_usable(*cluster);
}

/// Rank 1 leaves the others alone after so many collectives. On a busy machine an earlier one may
/// be late, so that only the message's end is certain.
std::string message_without_rank_one(int collectives) {
  const auto cluster = make_cuda_cluster(of_ranks(2), 0.3);
  std::atomic<bool> over{false};
  const auto body = [&](Rank& rank) {
    try {
      for (int i = 0; i < collectives; ++i) reduce(rank);
      while (rank.tensor_group.rank() == 1 && !over) std::this_thread::yield();
      if (rank.tensor_group.rank() == 0) reduce(rank);
    } catch (...) {
      over = true;
      throw;
    }
  };
  return message_of<DeadlinePassed>([&] { cluster->run(body); });
}

TEST(NcclFailure, ARankThatDoesNotComeIsNoticed) {
  EXPECT_THAT(message_without_rank_one(2), HasSubstr(" did not end within 0.3 s"));
}

TEST(NcclFailure, ARankThatNeverConnectsIsNoticed) {
  EXPECT_EQ(message_without_rank_one(0),
            "rank 0: connecting the ranks (number 0) did not end within 0.3 s");
}

}  // namespace
}  // namespace frugal::engine
