#include <gmock/gmock.h>

#include "engine/comm/failure.h"
#include "kernels/support/error.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double now = 100;

Heard waiting(double seconds, uint64_t number = 3) {
  return {.state = {.call = {"all-reduce", "tensor", number, 64},
                    .waiting = true,
                    .since = now - seconds},
          .at = now};
}

Heard computing(double seconds) {
  Heard heard = waiting(seconds);
  heard.state.waiting = false;
  return heard;
}

Failure late(int reporter, const std::vector<Heard>& ranks) {
  return explained({.kind = Failure::Kind::deadline, .rank = reporter, .reason = "it took long"},
                   ranks, now);
}

TEST(Explained, ADeadlineIsTheFaultOfTheRankThatComputes) {
  const Failure failure = late(0, {waiting(5), waiting(4), computing(4.5), computing(0.01)});
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(
      failure.reason,
      "rank 2 is late: it took long; rank 0 waits for all-reduce 3 of the tensor group (64 B) "
      "since 5 s; rank 1 waits for all-reduce 3 of the tensor group (64 B) since 4 s; rank 2 "
      "computes since 4.5 s, after all-reduce 3 of the tensor group (64 B); rank 3 computes "
      "since 0.01 s, after all-reduce 3 of the tensor group (64 B)");
}

TEST(Explained, ARankThatIsNotHeardComesBeforeOneThatComputes) {
  std::vector<Heard> ranks{waiting(5), computing(5), waiting(5)};
  ranks[2].at = now - 3;
  const Failure failure = late(0, ranks);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_THAT(failure.reason, HasSubstr("rank 2 does not answer since 3 s, and then: waits for "));
  ranks[2].of = Heard::Of::ended;
  EXPECT_EQ(late(0, ranks).rank, 1);
}

TEST(Explained, WhereAllWaitItIsNobodysFault) {
  const Failure failure = late(1, {waiting(5, 7), waiting(5, 8), computing(0.1)});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_THAT(failure.reason, StartsWith("all ranks wait for each other: it took long; rank 0 "));
}

TEST(Explained, WrongNumbersAreOfTheRankThatHadThemFirst) {
  std::vector<Heard> ranks{waiting(1), waiting(1), waiting(1)};
  const Failure wrong{.kind = Failure::Kind::wrong_numbers, .rank = 0, .reason = "nan"};
  EXPECT_EQ(explained(wrong, ranks, now).reason, "rank 0: nan");
  ranks[0].state.not_finite = {"all-reduce", "data", 9, 32};
  ranks[0].state.not_finite_at = 50.2;
  ranks[2].state.not_finite = {"send", "activations", 4, 16};
  ranks[2].state.not_finite_at = 50.1;
  const Failure failure = explained(wrong, ranks, now);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.reason,
            "rank 2 was the first with what is not finite, in send 4 of the activations group (16 "
            "B): nan");
}

TEST(Explained, AUsersMistakeAndStopStayAsTheyAre) {
  for (const auto kind : {Failure::Kind::input, Failure::Kind::interrupted})
    EXPECT_EQ(explained({.kind = kind, .rank = 1, .reason = "text"}, {waiting(1)}, now).reason,
              "text");
}

/// Raises a failure as processes hear of it.
template <class Thrown, class Error>
void expect_raised(const Error& error) {
  EXPECT_THROW(raise(failure_of(std::make_exception_ptr(error), 3)), Thrown);
}

TEST(Failures, AreRaisedAsTheErrorsThatTheyWere) {
  expect_raised<OutOfMemory>(OutOfMemory("full", 7, 8, 9));
  expect_raised<OutOfMemory>(std::bad_alloc());
  expect_raised<CannotWrite>(CannotWrite("full"));
  expect_raised<InputError>(InputError(""));
  expect_raised<DeadlinePassed>(DeadlinePassed(""));
  expect_raised<PeerLost>(PeerLost(""));
  expect_raised<WrongNumbers>(WrongNumbers(""));
  expect_raised<Interrupted>(Interrupted());
  expect_raised<std::runtime_error>(std::logic_error(""));
}

}  // namespace
}  // namespace frugal::engine
