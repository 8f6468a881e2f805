#include "bench/own_process.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/main/left_out.h"

namespace frugal::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OwnProcess, SaysWhatItsWorkSaysAndLeavesNothingBehind) {
  int here = 1;
  const nlohmann::json answer = in_own_process([&] {
    here = 2;
    return nlohmann::json{{"process", ::getpid()}, {"here", here}};
  });
  EXPECT_NE(answer["process"], ::getpid());
  EXPECT_EQ(answer["here"], 2);
  EXPECT_EQ(here, 1);
}

TEST(OwnProcess, PassesOnWhatWasThrown) {
  EXPECT_THAT(
      [] { in_own_process([]() -> nlohmann::json { throw std::runtime_error("too large"); }); },
      ThrowsMessage<std::runtime_error>(HasSubstr("too large")));
  EXPECT_THAT([] { in_own_process([]() -> nlohmann::json { ::_exit(3); }); },
              ThrowsMessage<std::runtime_error>(HasSubstr("not ended well")));
}

TEST(OwnProcess, IsNotMadeBesideOtherThreads) {
  std::latch done(1);
  std::thread other([&] { done.wait(); });
  EXPECT_THROW(in_own_process([] { return nlohmann::json(1); }), std::logic_error);
  done.count_down();
  other.join();
}

FRUGAL_LEFT_OUT(address, "OwnProcess.TheMostMemoryIsNoLessThanThatNow",
                "it gives back its shadow of what was freed at the same address");
TEST(OwnProcess, TheMostMemoryIsNoLessThanThatNow) {
  const Resident found = resident();
  EXPECT_GT(found.now, 0);
  EXPECT_GE(found.peak, found.now);
  const std::vector<char> more(64 << 20, 'x');
  EXPECT_NEAR(static_cast<double>(resident().now - found.now), static_cast<double>(more.size()),
              1 << 20);
}

}  // namespace
}  // namespace frugal::bench
