#include <gtest/gtest.h>

#include <atomic>

#include "engine/comm/decorated.h"
#include "kernels/support/error.h"
#include "tests/engine/comm/group.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

constexpr int ring_size = 5;
constexpr double deadline = 60;

/// Each sends to the one `step` further on.
MessageEdges ring_of(int size, int step) {
  std::vector<MessageEdges::Edge> edges;
  for (int rank = 0; rank < size; ++rank) edges.emplace_back(rank, (rank + step) % size);
  return {
      std::make_unique<LocalGroup>(size, deadline), edges,
      [](const MessageEdges::Edge& /*edge*/) { return std::make_unique<LocalGroup>(2, deadline); }};
}

void expect_messages_to_go_around(int size, int step) {
  MessageEdges ring = ring_of(size, step);
  on_every_rank(ring, [&](Communicator& c) {
    EXPECT_EQ(c.size(), size);
    c.barrier();
    const int next = (c.rank() + step) % size;
    const int before = (c.rank() + size - step) % size;
    std::vector<float> mine(3, static_cast<float>(c.rank())), others(3);
    for (int round = 1; round <= 2 * size; ++round) {
      c.send(view(mine), next).wait();
      c.receive(view(others), before).wait();
      mine = others;
      const int origin = (c.rank() + (size - step) * round) % size;
      EXPECT_EQ(mine, std::vector<float>(3, static_cast<float>(origin)));
    }
  });
}

TEST(MessageEdges, CarriesMessagesAroundInEitherDirection) {
  for (const int size : {2, 3, ring_size})
    for (const int step : {1, size - 1}) expect_messages_to_go_around(size, step);
}

/// Stages of a V send to both sides at once.
TEST(MessageEdges, CarriesMessagesBothWays) {
  const std::vector<MessageEdges::Edge> edges = {{0, 1}, {1, 0}, {1, 2}, {2, 1}};
  MessageEdges line(
      std::make_unique<LocalGroup>(3, deadline), edges,
      [](const MessageEdges::Edge& /*edge*/) { return std::make_unique<LocalGroup>(2, deadline); });
  on_every_rank(line, [&](Communicator& c) {
    c.barrier();
    std::vector<float> mine(3, static_cast<float>(c.rank()));
    const auto meets = [&](int peer) { return peer >= 0 && peer < 3; };
    for (const int peer : {c.rank() + 1, c.rank() - 1})
      if (meets(peer)) c.send(view(mine), peer).wait();
    for (const int peer : {c.rank() - 1, c.rank() + 1}) {
      std::vector<float> others(3);
      if (!meets(peer)) continue;
      c.receive(view(others), peer).wait();
      EXPECT_EQ(others, std::vector<float>(3, static_cast<float>(peer)));
    }
    if (c.rank() == 0) {
      EXPECT_THROW((void)c.send(view(mine), 2), std::logic_error);
    }
  });
}

TEST(MessageEdges, RefusesWhatIsNoMessageToANeighbour) {
  MessageEdges ring = ring_of(ring_size, 1);
  Communicator& c = ring.communicator(2);
  std::vector<float> data(10);
  const View some = view(data);
  EXPECT_THROW((void)c.send(some, 1), std::logic_error);
  EXPECT_THROW((void)c.receive(some, 3), std::logic_error);
  EXPECT_THROW((void)c.all_reduce(some), std::logic_error);
  EXPECT_THROW((void)c.all_gather(some, some), std::logic_error);
  EXPECT_THROW((void)c.shift(some, some), std::logic_error);
  EXPECT_THROW((void)c.broadcast(some, 0), std::logic_error);
}

TEST(MessageEdges, ABarrierWaitsForAll) {
  MessageEdges ring = ring_of(ring_size, 1);
  std::atomic<int> come{0};
  on_every_rank(ring, [&come](Communicator& c) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      c.barrier();
      EXPECT_GE(come, ring_size * round);
      c.barrier();
    }
  });
}

TEST(MessageEdges, AFailureReachesBothNeighboursUntilItIsReset) {
  MessageEdges ring = ring_of(ring_size, 1);
  on_every_rank(ring, [](Communicator& c) {
    std::vector<float> data(8);
    const auto receive = [&] {
      c.receive(view(data), (c.rank() + ring_size - 1) % ring_size).wait();
    };
    if (c.rank() == 2) c.abort("rank 2 ran out of memory");
    if (c.rank() == 3) {
      EXPECT_EQ(message_of<PeerLost>(receive), "rank 2 ran out of memory");
      c.abort("rank 3 knows");
    }
    if (c.rank() == 4) {
      EXPECT_EQ(message_of<PeerLost>(receive), "rank 3 knows");
    }
    if (c.rank() == 1) {
      EXPECT_EQ(message_of<PeerLost>([&] {
                  for (;;) c.send(view(data), 2).wait();  // until it has failed
                }),
                "rank 2 ran out of memory");
    }
  });
  ring.reset();
  on_every_rank(ring, [](Communicator& c) { c.barrier(); });
}

}  // namespace
}  // namespace frugal::engine
