#include "engine/comm/processes/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;

/// A world whose processes are threads: each calls `body` with its own end of it.
void in_world(int size, const std::function<void(World&)>& body, double deadline = 60) {
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world(rank, size,
                  [&](const std::string& own) {
                    if (rank == 0) address.set_value(own);
                    return told.get();
                  },
                  {.deadline = deadline});
      body(world);
    });
}

TEST(World, ExchangesWhatEachHas) {
  in_world(5, [](World& world) {
    for (int round = 0; round < 20; ++round) {
      const auto text = [&](int rank) {
        return std::string(static_cast<size_t>(1000 * round), 'x') + std::to_string(rank);
      };
      const std::vector<std::string> all = world.exchange(text(world.rank()));
      ASSERT_EQ(all.size(), 5U);
      for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(all[static_cast<size_t>(rank)], text(rank));
      EXPECT_EQ(world.gather(text(world.rank())).size(), world.rank() == 0 ? 5U : 0U);
    }
  });
}

TEST(World, AFailureIsEverybodysAndStays) {
  std::atomic<int> told = 0;
  in_world(4, [&](World& world) {
    if (world.rank() == 2)
      world.fail({.kind = Failure::Kind::wrong_numbers, .rank = 2, .reason = "nan"});
    for (int i = 0; i < 2; ++i) {
      try {
        world.exchange("");
      } catch (const WrongNumbers& error) {
        EXPECT_STREQ(error.what(), "rank 2: nan");
        ++told;
      }
    }
    EXPECT_EQ(world.speaks(), world.rank() == 0);
  });
  EXPECT_EQ(told, 8);
}

TEST(World, AFailureThatComesLaterTakesNoValues) {
  std::atomic<int> complete = 0;
  constexpr int rounds = 20;
  for (int i = 0; i < rounds; ++i)
    in_world(3, [&](World& world) {
      complete += static_cast<int>(world.exchange("abc").size());
      world.fail({.rank = world.rank(), .reason = "the next thing that each does"});
    });
  EXPECT_EQ(complete, rounds * 3 * 3);
}

TEST(World, OfSeveralFailuresOneCounts) {
  std::mutex mutex;
  std::vector<std::string> reasons;
  in_world(4, [&](World& world) {
    const Failure failure =
        world.fail({.rank = world.rank(), .reason = "own " + std::to_string(world.rank())});
    const std::lock_guard lock(mutex);
    reasons.push_back(failure.reason);
  });
  ASSERT_EQ(reasons.size(), 4U);
  EXPECT_THAT(reasons, ::testing::Each(reasons.front()));
}

TEST(World, ARankThatDoesNotComeIsNamed) {
  std::atomic<bool> over = false;
  in_world(
      3,
      [&](World& world) {
        if (world.rank() == 1) {
          while (!over) std::this_thread::yield();  // it computes
          return;
        }
        const std::string error = message_of<DeadlinePassed>([&] { world.exchange("abc"); });
        EXPECT_THAT(error, HasSubstr("rank 1 is late: rank "));
        EXPECT_THAT(error, HasSubstr("exchange 0 (3 B) did not end within 0.5 s"));
        EXPECT_THAT(error, HasSubstr("rank 1 has not communicated yet"));
        if (world.rank() == 0) over = true;
      },
      0.5);
}

TEST(World, OneThatIsGoneWithoutAWordIsLost) {
  // A process that is killed closes its connections; a world that nobody has left does not.
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  std::jthread first([&] {
    World world(0, 3, [&](const std::string& own) {
      address.set_value(own);
      return own;
    });
    const std::string error = message_of<PeerLost>([&] { world.exchange(""); });
    EXPECT_THAT(error, HasSubstr("rank 2: lost: its process was killed, or has crashed; rank 0 "));
  });
  std::jthread second([&] {
    World world(1, 3, [&](const std::string&) { return told.get(); });
    EXPECT_THAT(message_of<PeerLost>([&] { world.exchange(""); }), HasSubstr("rank 2: lost"));
  });
  Connection killed = connect_to(told.get(), 2, 10);
  killed.flush();
  std::this_thread::yield();
  killed.close();
}

/// NCCL and MPI may miss a process before the world does.
TEST(World, OneThatIsGoneIsTheCauseOfWhatOthersReport) {
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  std::atomic<bool> reports = false;
  std::jthread first([&] {
    World world(0, 2, [&](const std::string& own) {
      address.set_value(own);
      return own;
    });
    reports = true;
    const Failure failure =
        world.fail({.kind = Failure::Kind::peer_lost, .rank = 0, .reason = "a link went down"});
    EXPECT_EQ(failure.rank, 1);
    EXPECT_THAT(failure.reason, HasSubstr("rank 1: lost: its process was killed"));
  });
  Connection killed = connect_to(told.get(), 1, 10);
  killed.flush();
  while (!reports || killed.receive().empty()) std::this_thread::yield();  // a beat comes later
  killed.close();
}

/// Whoever reports something has a reason of its own, whatever becomes of it then.
TEST(World, OneThatIsGoneAfterItsReportIsNotLost) {
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  std::jthread first([&] {
    World world(0, 2, [&](const std::string& own) {
      address.set_value(own);
      return own;
    });
    EXPECT_EQ(message_of<std::runtime_error>([&] { world.exchange(""); }), "rank 1: thrown");
  });
  Connection second = connect_to(told.get(), 1, 10);
  second.send({.kind = Message::Kind::failed,
               .rank = 1,
               .body = Failure{.rank = 1, .reason = "thrown"}.serialized()});
  second.close();
}

TEST(World, AStrangerIsNotLetIn) {
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  std::jthread first([&] {
    World world(0, 2, [&](const std::string& own) {
      address.set_value(own);
      return own;
    });
    EXPECT_EQ(world.exchange("a").back(), "b");
  });
  std::string wrong = told.get();
  wrong.replace(wrong.find(' ') + 1, 16, "0123456789abcdef");
  Connection stranger = connect_to(wrong, 1, 10);
  stranger.send({.kind = Message::Kind::value, .rank = 1, .body = "stranger"});
  World world(1, 2, [&](const std::string&) { return told.get(); });
  EXPECT_EQ(world.exchange("b").front(), "a");
}

TEST(World, AUserWhoWantsToStopEndsItForAll) {
  std::atomic<bool> stop = false;
  std::promise<std::string> address;
  const std::shared_future<std::string> told = address.get_future();
  const auto of = [&](int rank) {
    World world(rank, 2,
                [&](const std::string& own) {
                  if (rank == 0) address.set_value(own);
                  return told.get();
                },
                {.deadline = 60, .stop = [&, rank] { return rank == 1 && stop; }});
    try {
      stop = true;
      world.exchange("");
      if (rank == 0) world.exchange("");
      ADD_FAILURE() << "nobody stopped";
    } catch (const Interrupted&) {
      world.fail({.kind = Failure::Kind::interrupted, .rank = rank, .reason = ""});
    }
  };
  std::jthread first([&] { of(0); });
  of(1);
}

}  // namespace
}  // namespace frugal::engine
