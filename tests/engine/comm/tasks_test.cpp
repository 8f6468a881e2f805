#include "engine/comm/tasks.h"

#include <gmock/gmock.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

// Tasks that wait for each other on one thread.
namespace frugal::engine {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

class Tasks : public ::testing::Test {
 protected:
  std::mutex mutex_;
  std::vector<Signal> signals_{3};
  std::vector<int> order_;
};

TEST_F(Tasks, RunInTheOrderInWhichTheyBecomeReady) {
  bool open = false;
  EXPECT_FALSE(tasks::inside());
  tasks::run(3, [&](size_t i) {
    EXPECT_TRUE(tasks::inside());
    std::unique_lock lock(mutex_);
    order_.push_back(static_cast<int>(i));
    if (i == 2) {
      open = true;
      signals_[1].notify();
      signals_[0].notify();
      return;
    }
    EXPECT_EQ(signals_[i].wait(lock, 0ns, [&] { return open; }), Signal::End::ready);
    order_.push_back(static_cast<int>(i) + 10);
  });
  EXPECT_FALSE(tasks::inside());
  EXPECT_THAT(order_, ElementsAre(0, 1, 2, 11, 10));
}

TEST_F(Tasks, WakeUpOnlyForWhatTheyWaitFor) {
  int value = 0;
  tasks::run(2, [&](size_t i) {
    std::unique_lock lock(mutex_);
    if (i == 0) {
      EXPECT_EQ(signals_[0].wait(lock, 0ns, [&] { return value == 3; }), Signal::End::ready);
      order_.push_back(value);
      return;
    }
    for (; value < 3; signals_[0].notify()) {
      ++value;
      order_.push_back(value);
    }
  });
  EXPECT_THAT(order_, ElementsAre(1, 2, 3, 3));
}

TEST_F(Tasks, TheOneThatHasWaitedForLongestLearnsThatAllDo) {
  tasks::run(3, [&](size_t i) {
    std::unique_lock lock(mutex_);
    const Signal::End end = signals_[i].wait(lock, 0ns, [] { return false; });
    EXPECT_EQ(end, Signal::End::stuck);
    order_.push_back(static_cast<int>(i));
  });
  EXPECT_THAT(order_, ElementsAre(0, 1, 2));
}

/// A task that waits while it unwinds, as a rank does that has failed.
TEST_F(Tasks, EachHasItsOwnExceptions) {
  bool waited = false;
  struct Waits {
    const std::function<void()>& wait;
    ~Waits() { wait(); }
  };
  std::vector<std::string> caught(2);
  tasks::run(2, [&](size_t i) {
    const std::function<void()> wait = [&] {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      std::unique_lock lock(mutex_);
      signals_[0].wait(lock, 0ns, [&] { return waited; });
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    };
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    try {
      if (i == 1) throw std::runtime_error("second");
      const Waits unwinding{wait};
      throw std::runtime_error("first");
    } catch (const std::exception& e) {
      std::unique_lock lock(mutex_);
      waited = true;
      signals_[0].notify();
      // While the second handles its exception the first catches its own.
      if (i == 1) signals_[1].wait(lock, 0ns, [&] { return !caught[0].empty(); });
      caught[i] = e.what();
      signals_[1].notify();
      const auto current = std::current_exception();
      EXPECT_THROW(std::rethrow_exception(current), std::runtime_error);
      try {
        throw;
      } catch (const std::exception& same) {
        EXPECT_EQ(same.what(), caught[i]);
      }
    }
    EXPECT_EQ(std::current_exception(), nullptr);
  });
  EXPECT_THAT(caught, ElementsAre("first", "second"));
}

TEST_F(Tasks, EndWithoutHavingWaited) {
  tasks::run(0, [](size_t) { FAIL(); });
  int ended = 0;
  tasks::run(500, [&](size_t) { ++ended; });
  EXPECT_EQ(ended, 500);
}

}  // namespace
}  // namespace frugal::engine
