#include "engine/comm/nccl/watch.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

#include "engine/comm/failure.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;

/// A group, a library and a clock that do what a test says.
class WatchTest : public ::testing::Test {
 protected:
  static constexpr double deadline = 10;
  double time = 1000;
  double look = 0;  ///< seconds that each look at the clock takes
  std::string lost, broken;
  std::vector<std::string> told;
  std::vector<bool> ended = std::vector<bool>(4), begun = ended;
  Activity activity;

  Watch watch{
      3,
      deadline,
      {.throw_if_failed =
           [this] {
             if (!lost.empty()) throw PeerLost(lost);
           },
       .throw_if_broken =
           [this] {
             if (!broken.empty()) throw std::runtime_error(broken);
           },
       .fail =
           [this](const std::exception_ptr& error) { told.push_back(failure_of(error, 3).reason); },
       .now = [this] { return time += look; },
       .activity = &activity,
       .group = "tensor"}};

  void start(size_t i) {
    static float element;
    watch.started(
        {"all-reduce", {&element, DType::bf16, {static_cast<int64_t>(i) + 8}}},
        [this, i] { return static_cast<bool>(ended[i]); },
        [this, i] { return static_cast<bool>(begun[i]); });
  }
};

TEST_F(WatchTest, LatenessIsToldAndThrown) {
  ended[0] = true;
  start(0);
  start(1);
  watch.check();
  time += deadline + 1;
  try {
    watch.check();
    FAIL() << "it was in time";
  } catch (const DeadlinePassed& e) {
    EXPECT_STREQ(e.what(), "rank 3: all-reduce of 9 bf16 (number 1) did not end within 10 s");
    EXPECT_EQ(told, std::vector<std::string>{e.what()});
  }
}

TEST_F(WatchTest, TheDeadlineCountsFromTheFirstLook) {
  start(0);
  time += 100 * deadline;  // the rank was busy with something else
  EXPECT_NO_THROW(watch.check());
  time += deadline + 1;
  EXPECT_THROW(watch.check(), DeadlinePassed);
}

TEST_F(WatchTest, EachCollectiveHasItsOwnDeadline) {
  for (size_t i = 0; i < 3; ++i) start(i);
  for (size_t i = 0; i < 3; ++i) {
    watch.check();
    time += deadline - 1;
    EXPECT_NO_THROW(watch.check());
    ended[i] = true;
  }
  watch.check();
  start(3);
  watch.check();
  time += deadline + 1;
  EXPECT_THROW(watch.check(), DeadlinePassed);
}

TEST_F(WatchTest, AFailureOfAnotherRankIsThrownAndNotToldAgain) {
  start(0);
  lost = "rank 1 ran out of memory";
  EXPECT_THROW(watch.check(), PeerLost);
  EXPECT_TRUE(told.empty());
}

TEST_F(WatchTest, WhatTheLibraryReportsIsToldAndThrown) {
  broken = "a link went down";
  EXPECT_THROW(watch.check(), std::runtime_error);
  EXPECT_EQ(told, std::vector<std::string>{broken});
}

/// The device computes until the oldest has begun, and from its end to the next one's beginning.
TEST_F(WatchTest, NotesWhatTheDeviceWaitsFor) {
  const auto noted = [this] {
    watch.check();
    return activity.state().waiting ? activity.state().call.text() : "computes";
  };
  start(0);
  start(1);
  EXPECT_EQ(noted(), "computes");
  begun[0] = true;
  EXPECT_EQ(noted(), "all-reduce 0 of the tensor group (16 B)");
  activity.waits_for({"receive", "activations", 0, 8});  // of another group, which then has it
  activity.goes_on();
  EXPECT_EQ(noted(), "all-reduce 0 of the tensor group (16 B)");
  ended[0] = true;
  EXPECT_EQ(noted(), "computes");
  begun[1] = true;
  EXPECT_EQ(noted(), "all-reduce 1 of the tensor group (18 B)");
  ended[1] = true;
  EXPECT_EQ(noted(), "computes");
  int looks = 0;
  watch.until({"communicator", {}}, [&] {
    if (++looks > 1) {
      EXPECT_EQ(activity.state().call.text(), "communicator 2 of the tensor group (0 B)");
    }
    return looks == 3;
  });
  EXPECT_FALSE(activity.state().waiting);
}

TEST_F(WatchTest, LooksUntilSomethingIsReady) {
  int looks = 0;
  watch.until({"communicator", {}}, [&] { return ++looks == 5; });
  EXPECT_EQ(looks, 5);
  look = 0.3 * deadline;
  looks = 0;
  try {
    watch.until({"communicator", {}}, [&] { return ++looks < 0; });
    FAIL() << "it was in time";
  } catch (const DeadlinePassed& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 3: communicator (number 0) did not end within 10 s"));
  }
  EXPECT_EQ(looks, 4);
  lost = "rank 1 ran out of memory";
  EXPECT_THROW(watch.until({"communicator", {}}, [] { return false; }), PeerLost);
}

}  // namespace
}  // namespace frugal::engine
