#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "kernels/support/error.h"
#include "tests/engine/comm/group.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LocalGroupFlight, StartingDoesNotWaitForPeers) {
  LocalGroup group(2, 60);
  std::vector<float> a(3, 1);
  std::vector<float> b(3, 2);
  Pending first = group.communicator(0).all_reduce(view(a));  // would hang if it waited
  Pending second = group.communicator(1).all_reduce(view(b));
  std::jthread peer([&] { second.wait(); });
  first.wait();
  EXPECT_EQ(a, std::vector<float>(3, 3));
}

TEST(LocalGroupFlight, RandomInterleavings) {
  constexpr int ranks = 5;
  LocalGroup group(ranks, 60);
  on_every_rank(group, [](Communicator& c) {
    std::mt19937 shared(7);  // what all ranks do
    std::mt19937 own(100 + static_cast<unsigned>(c.rank()));
    for (int round = 0; round < 300; ++round) {
      const auto count = static_cast<size_t>(shared() % 50 + 1);
      const auto flights = shared() % 4 + 1;
      std::vector<std::vector<double>> data(flights), gathered(flights);
      std::vector<Pending> pending;
      for (size_t i = 0; i < flights; ++i) {
        if (own() % 3 == 0) std::this_thread::yield();
        data[i].assign(count, c.rank() + double(i));
        gathered[i].resize(count * ranks);
        pending.push_back(i % 2 == 0 ? c.all_reduce(view(data[i]))
                                     : c.all_gather(view(data[i]), view(gathered[i])));
      }
      std::vector<size_t> order(flights);
      for (size_t i = 0; i < flights; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), shared);
      for (const size_t i : order) {
        if (own() % 3 == 0) std::this_thread::yield();
        pending[i].wait();
        if (i % 2 == 0) {
          ASSERT_EQ(data[i], std::vector<double>(count, 10.0 + ranks * double(i)));
        } else {
          for (size_t j = 0; j < gathered[i].size(); ++j)
            ASSERT_EQ(gathered[i][j], double(j / count) + double(i));
        }
      }
      if (round % 10 == 0) c.barrier();
    }
  });
}

TEST(LocalGroupFlight, NoRankPassesABarrierBeforeAllHaveCome) {
  LocalGroup group(4, 60);
  std::atomic<int> came{0};
  on_every_rank(group, [&](Communicator& c) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      c.barrier();
      EXPECT_GE(came.load(), 4 * round);
      c.barrier();
    }
  });
}

TEST(LocalGroupFailure, AbortReachesThoseWhoWaitAndThoseWhoCome) {
  LocalGroup group(3, 60);
  on_every_rank(group, [](Communicator& c) {
    std::vector<float> data(8);
    if (c.rank() == 1) return c.abort("rank 1 ran out of memory");
    const auto reduce = [&] { c.all_reduce(view(data)).wait(); };
    EXPECT_EQ(message_of<PeerLost>(reduce), "rank 1 ran out of memory");
    EXPECT_EQ(message_of<PeerLost>(reduce), "rank 1 ran out of memory");
    EXPECT_EQ(message_of<PeerLost>([&] { c.receive(view(data), 1).wait(); }),
              "rank 1 ran out of memory");
    EXPECT_THROW(c.send(view(data), 0).wait(), PeerLost);
    EXPECT_THROW(c.barrier(), PeerLost);
  });
  group.reset();
  on_every_rank(group, [](Communicator& c) { c.barrier(); });
}

TEST(LocalGroupFailure, DeadlineNamesTheCollectiveAndTheMissingRanks) {
  LocalGroup group(3, 0.05);
  std::vector<float> data(8);
  const auto reduce = [&] { group.communicator(1).all_reduce(view(data)).wait(); };
  EXPECT_THAT(message_of<DeadlinePassed>(reduce),
              AllOf(HasSubstr("rank 1: all-reduce of 8 f32"),
                    HasSubstr("rank 0, rank 2 did not come"), HasSubstr("0.05 s")));
  // Those who come too late learn why it is over.
  EXPECT_THAT(message_of<PeerLost>([&] { group.communicator(0).barrier(); }),
              HasSubstr("all-reduce of 8 f32"));
}

TEST(LocalGroupFailure, DeadlineOfAMessage) {
  LocalGroup group(2, 0.05);
  std::vector<float> data(8);
  EXPECT_THAT(
      message_of<DeadlinePassed>([&] { group.communicator(1).receive(view(data), 0).wait(); }),
      HasSubstr("rank 1: message 0 from rank 0 did not come"));
}

TEST(LocalGroupFailure, MismatchNamesBoth) {
  LocalGroup group(2, 60);
  on_every_rank(group, [](Communicator& c) {
    std::vector<float> data(8), all(16);
    const auto call = [&] {
      if (c.rank() == 0) c.all_reduce(view(data)).wait();
      if (c.rank() == 1) c.all_gather(view(data), view(all)).wait();
    };
    EXPECT_THAT(message_of<std::logic_error>(call),
                AllOf(HasSubstr("all-reduce of 8 f32 on rank 0"),
                      HasSubstr("all-gather of 8 f32 on rank 1")));
  });
}

TEST(LocalGroupFailure, MismatchOfSizeTypeOrRoot) {
  for (const int difference : {0, 1, 2}) {
    LocalGroup group(2, 60);
    on_every_rank(group, [&](Communicator& c) {
      const bool other = c.rank() == 1;
      std::vector<double> data(20);
      const DType type = other && difference == 0 ? DType::f32 : DType::f64;
      const View part(data.data(), type, {other && difference == 1 ? 9 : 10});
      const int root = other && difference == 2 ? 1 : 0;
      EXPECT_THROW(c.broadcast(part, root).wait(), std::logic_error);
    });
  }
}

TEST(LocalGroupFailure, ARankThatUnwindsDoesNotKeepItsPeersWaiting) {
  LocalGroup group(2, 60);
  on_every_rank(group, [](Communicator& c) {
    std::vector<float> data(8);
    const auto body = [&] {
      const Pending pending = c.all_reduce(view(data));
      if (c.rank() == 0) throw std::runtime_error("out of luck");
    };
    if (c.rank() == 0) {
      EXPECT_EQ(message_of<std::runtime_error>(body), "out of luck");
    } else {
      EXPECT_EQ(message_of<PeerLost>([&] { c.all_reduce(view(data)).wait(); }),
                "rank 0 failed before it had waited for its peers");
    }
  });
}

TEST(LocalGroupContract, ViewsThatDoNotFit) {
  LocalGroup group(2, 60);
  Communicator& c = group.communicator(0);
  std::vector<float> data(8), wrong(15);
  std::vector<int32_t> integers(8);
  const View strided = view(data).strided(0, {4}, {2, 0, 0, 0});
  EXPECT_THROW((void)c.all_reduce(view(integers)), std::invalid_argument);
  EXPECT_THROW((void)c.all_reduce(strided), std::invalid_argument);
  EXPECT_THROW((void)c.all_gather(view(data), view(wrong)), std::invalid_argument);
  EXPECT_THROW((void)c.reduce_scatter(view(wrong), view(data)), std::invalid_argument);
  EXPECT_THROW((void)c.all_to_all(view(wrong), view(wrong)), std::invalid_argument);
  EXPECT_THROW((void)c.broadcast(view(data), 2), std::invalid_argument);
  EXPECT_THROW((void)c.send(view(data), -1), std::invalid_argument);
}

}  // namespace
}  // namespace frugal::engine
