#include "engine/comm/processes/world.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>

#include "kernels/support/error.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;

/// A place where the ends of a world, which are threads here, learn of rank 0's address.
class Meeting {
 public:
  World join(int rank, int size, World::Options options = {.deadline = 60}) {
    const auto tell = [&](const std::string& own) {
      if (rank == 0) address_.set_value(own);
      return told_.get();
    };
    return {rank, size, tell, std::move(options)};
  }
  std::string address() const { return told_.get(); }
  /// Connection of a process that then does as a test wants.
  Connection connect(int rank) const { return connect_to(address(), rank, 10); }

 private:
  std::promise<std::string> address_;
  const std::shared_future<std::string> told_ = address_.get_future();
};

/// Each process calls `body` with its own end of the world.
void in_world(int size, const std::function<void(World&)>& body, double deadline = 60) {
  Meeting meeting;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      World world = meeting.join(rank, size, {.deadline = deadline});
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
      world.fail({Failure::Kind::out_of_memory, world.rank(), "no room", {7, 8, 9}});
    for (int i = 0; i < 2; ++i) {
      try {
        world.exchange("");
      } catch (const OutOfMemory& error) {
        EXPECT_STREQ(error.what(), "rank 2: no room");
        EXPECT_EQ(error.missing(), 7 + 8 - 9);
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
  Meeting meeting;
  std::jthread first([&] {
    World world = meeting.join(0, 3);
    const std::string error = message_of<PeerLost>([&] { world.exchange(""); });
    EXPECT_THAT(error, HasSubstr("rank 2: lost: its process was killed, or has crashed; rank 0 "));
  });
  std::jthread second([&] {
    World world = meeting.join(1, 3);
    EXPECT_THAT(message_of<PeerLost>([&] { world.exchange(""); }), HasSubstr("rank 2: lost"));
  });
  Connection killed = meeting.connect(2);
  killed.flush();
  std::this_thread::yield();
  killed.close();
}

/// NCCL and MPI may miss a process before the world does.
TEST(World, OneThatIsGoneIsTheCauseOfWhatOthersReport) {
  Meeting meeting;
  std::atomic<bool> reports = false;
  std::jthread first([&] {
    World world = meeting.join(0, 2);
    reports = true;
    const Failure failure =
        world.fail({.kind = Failure::Kind::peer_lost, .rank = 0, .reason = "a link went down"});
    EXPECT_EQ(failure.rank, 1);
    EXPECT_THAT(failure.reason, HasSubstr("rank 1: lost: its process was killed"));
  });
  Connection killed = meeting.connect(1);
  killed.flush();
  while (!reports || killed.receive().empty()) std::this_thread::yield();  // a beat comes later
  killed.close();
}

/// Whoever reports something has a reason of its own, whatever becomes of it then.
TEST(World, OneThatIsGoneAfterItsReportIsNotLost) {
  Meeting meeting;
  std::jthread first([&] {
    World world = meeting.join(0, 2);
    EXPECT_EQ(message_of<std::runtime_error>([&] { world.exchange(""); }), "rank 1: thrown");
  });
  Connection second = meeting.connect(1);
  const auto thrown = nlohmann::json::to_cbor(
      {{"kind", Failure::Kind::error}, {"rank", 1}, {"reason", "thrown"}, {"bytes", {0, 0, 0}}});
  second.send({.kind = Message::Kind::failed,
               .rank = 1,
               .body = std::string(thrown.begin(), thrown.end())});
  second.close();
}

TEST(World, AStrangerIsNotLetIn) {
  Meeting meeting;
  std::jthread first([&] {
    World world = meeting.join(0, 2);
    EXPECT_EQ(world.exchange("a").back(), "b");
  });
  std::string wrong = meeting.address();
  wrong.replace(wrong.find(' ') + 1, 16, "0123456789abcdef");
  Connection stranger = connect_to(wrong, 1, 10);
  stranger.send({.kind = Message::Kind::value, .rank = 1, .body = "stranger"});
  World world = meeting.join(1, 2);
  EXPECT_EQ(world.exchange("b").front(), "a");
}

TEST(World, AUserWhoWantsToStopEndsItForAll) {
  std::atomic<bool> stop = false;
  Meeting meeting;
  const auto of = [&](int rank) {
    World world =
        meeting.join(rank, 2, {.deadline = 60, .stop = [&, rank] { return rank == 1 && stop; }});
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
