#include <gmock/gmock.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/tasks.h"

// Two pieces of work that take turns where they wait.
namespace frugal::engine {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

/// Events, in their order.
class InterleavingTest : public ::testing::Test {
 protected:
  struct Noted final : Pending::Work {
    Noted(std::vector<std::string>& events, std::string name)
        : events(events), name(std::move(name)) {}
    void wait() override { events.push_back(name); }
    std::vector<std::string>& events;
    const std::string name;
  };
  /// Notes that it waits.
  Pending started(const std::string& name) {
    return Pending(std::make_unique<Noted>(events_, name));
  }
  /// Computes, starts a collective and waits for it, so many times.
  Interleaving::Work work(const std::string& name, int times) {
    return [this, name, times](Interleaving& other) {
      for (int i = 0; i < times; ++i) {
        events_.push_back(name + std::to_string(i));
        Pending pending = started("wait " + name);
        wait_beside(&other, pending);
      }
    };
  }
  std::string error_of(const Interleaving::Work& first, const Interleaving::Work& second) {
    try {
      Interleaving::run(first, second);
    } catch (const std::exception& e) {
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      return e.what();
    }
    return "no error";
  }

  std::vector<std::string> events_;
};

TEST_F(InterleavingTest, OneComputesUntilTheOtherHasComputed) {
  Interleaving::run(work("a", 2), work("b", 3));
  EXPECT_THAT(events_, ElementsAre("a0", "b0", "wait a", "a1", "wait b", "b1", "wait a", "wait b",
                                   "b2", "wait b"));
}

TEST_F(InterleavingTest, WhoNeverWaitsIsNotInterrupted) {
  Interleaving::run(
      [&](Interleaving& other) {
        Pending nothing;
        wait_beside(&other, nothing);
        events_.emplace_back("a");
        wait_beside(nullptr, nothing);
      },
      work("b", 1));
  EXPECT_THAT(events_, ElementsAre("a", "b0", "wait b"));
  Pending alone = started("wait");
  wait_beside(nullptr, alone);
  EXPECT_EQ(events_.back(), "wait");
}

TEST_F(InterleavingTest, AFailureUnwindsTheOther) {
  const auto fails = [&](int after) {
    return [&, after](Interleaving& other) {
      work("f", after)(other);
      throw std::runtime_error("enough");
    };
  };
  struct Leaving {
    std::vector<std::string>& events;
    // What unwinds may catch what it throws meanwhile.
    ~Leaving() {
      try {
        throw std::logic_error("of its own");
      } catch (const std::logic_error&) {
        events.emplace_back("left");
      }
    }
  };
  const Interleaving::Work waits = [&](Interleaving& other) {
    const Leaving leaving{events_};
    work("w", 5)(other);
  };
  // Of its five turns it has no more than the other one.
  const auto turns = [&] {
    return std::ranges::count_if(events_, [](const std::string& event) {
      return event.size() == 2 && event.front() == 'w';
    });
  };
  for (const int after : {0, 1, 2}) {
    events_.clear();
    EXPECT_EQ(error_of(waits, fails(after)), "enough") << after;
    EXPECT_EQ(events_.back(), "left");
    EXPECT_EQ(turns(), after + 1);
    events_.clear();
    EXPECT_EQ(error_of(fails(after), waits), "enough") << after;
    EXPECT_EQ(events_.empty() ? "" : events_.back(), after == 0 ? "" : "left");
  }
}

// One that has ended is no longer there to fail.
TEST_F(InterleavingTest, AFailureOfTheLastIsThrown) {
  const auto fails = [&](Interleaving& other) {
    work("f", 3)(other);
    throw std::runtime_error("late");
  };
  EXPECT_EQ(error_of(work("w", 1), fails), "late");
  EXPECT_EQ(error_of(fails, work("w", 1)), "late");
  EXPECT_EQ(error_of(fails, [](Interleaving&) {}), "late");
  EXPECT_EQ(error_of([](Interleaving&) {}, fails), "late");
}

// Each rank of a virtual pipeline is a task, which may wait for another rank on either stack.
TEST_F(InterleavingTest, GoesOnWithinTasks) {
  std::mutex mutex;
  std::vector<Signal> signals(2);
  std::vector<int> met(2);
  const auto meet = [&](size_t i) {
    std::unique_lock lock(mutex);
    ++met[i];
    signals[1 - i].notify();
    EXPECT_EQ(signals[i].wait(lock, 0ns, [&] { return met[1 - i] >= met[i]; }), Signal::End::ready);
  };
  std::vector<std::string> errors(2);
  tasks::run(2, [&](size_t i) {
    const auto half = [&](int times) {
      return [&, times](Interleaving& other) {
        for (int k = 0; k < times; ++k) {
          meet(i);
          other.before_wait();
        }
        if (times == 3) throw std::runtime_error(std::to_string(i));
      };
    };
    errors[i] = error_of(half(2), half(3));
  });
  EXPECT_THAT(met, ElementsAre(5, 5));
  EXPECT_THAT(errors, ElementsAre("0", "1"));
}

}  // namespace
}  // namespace frugal::engine
