#include "harness/compare/change.h"

#include <gmock/gmock.h>

#include "harness/report/commands/comparison_report.h"
#include "tests/harness/comparison.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using testing::measured;
using testing::processes;
using RecordList = std::vector<Record>;

/// Of the cases that both have, all quantities.
std::vector<ComparedQuantity> compared(const RecordList& base, const RecordList& candidate,
                                       const CompareOptions& options = {}) {
  return compare(pair_up(base, candidate, {}), options);
}

/// Eight processes whose times differ a little, times a factor, from this second on.
RecordList eight(double factor, double spread, const std::string& case_id = "64",
                 int first_second = 0) {
  std::vector<std::vector<double>> times;
  for (int i = 0; i < 8; ++i) {
    const double level = factor * (1 + spread * ((i * 3) % 8 - 3.5));
    times.push_back({level, level * 1.001, level * 0.999});
  }
  return processes(measured(case_id, {}), times, first_second);
}

Change change_of(const RecordList& base, const RecordList& candidate) {
  return compared(base, candidate).at(0).change;
}

TEST(Change, OfATimeIsSeenWhereProcessesTellIt) {
  EXPECT_EQ(change_of(eight(1, 0.002), eight(1.1, 0.002)), Change::slower);
  EXPECT_EQ(change_of(eight(1.1, 0.002), eight(1, 0.002)), Change::faster);
  EXPECT_EQ(change_of(eight(1, 0.002), eight(1, 0.002)), Change::same);
  EXPECT_EQ(change_of(eight(1, 0.002), eight(1.005, 0.002)), Change::same);  // within the margin
}

TEST(Change, OfNoisyTimesIsAmbiguousThoughEachProcessIsSureOfIts) {
  EXPECT_EQ(change_of(eight(1, 0.05), eight(1.05, 0.05, "64", 300)), Change::ambiguous);
}

TEST(Change, OfFewProcessesIsNotJudgedHoweverManySamplesTheyTook) {
  RecordList base = {measured("64", std::vector<double>(1000, 1))}, candidate = base;
  candidate[0].metrics["time"].samples = std::vector<double>(1000, 2);
  const ComparedQuantity quantity = compared(base, candidate).at(0);
  EXPECT_EQ(quantity.change, Change::too_few);
  EXPECT_EQ(quantity.ratio->value, 2);
  EXPECT_FALSE(quantity.ratio->interval);
  EXPECT_FALSE(quantity.p);
}

TEST(Change, IsJudgedOfAllQuantitiesTogether) {
  RecordList base = eight(1, 0.02), candidate = eight(1.1, 0.02);
  const double alone = *compared(base, candidate).at(0).p;
  for (int i = 0; i < 9; ++i) {
    for (Record& r : eight(1, 0.002, std::to_string(i))) {
      base.push_back(r);
      candidate.push_back(r);
    }
  }
  EXPECT_NEAR(*compared(base, candidate).at(0).p, 10 * alone, 1e-12);
}

/// Six processes, of which each turn has another speed, from this second on.
RecordList six(double factor, int first_second) {
  std::vector<std::vector<double>> times;
  for (const double speed : {1., 2., 1.3, 0.7, 1.7, 2.2}) times.push_back({factor * speed});
  return processes(measured("64", {}), times, first_second);
}

TEST(Change, IsSeenWithinTurnsThoughTheMachineVariesFromTurnToTurn) {
  EXPECT_EQ(change_of(six(1, 0), six(1.05, 300)), Change::ambiguous);  // one side after the other
  const ComparedQuantity by_turns = compared(six(1, 0), six(1.05, 5)).at(0);
  EXPECT_TRUE(by_turns.by_turns);
  EXPECT_EQ(by_turns.change, Change::slower);
  EXPECT_NEAR(by_turns.ratio->value, 1.05, 1e-12);
  EXPECT_DOUBLE_EQ(*by_turns.p, 2. / 64);
}

TEST(Change, OfMoreQuantitiesThanTheTurnsCanTellNeedsMoreOfThem) {
  RecordList base = six(1, 0), candidate = six(1.05, 5);
  for (Record r : six(1, 0)) {
    r.case_id = candidate.emplace_back(r).case_id = "another";
    base.push_back(r);
  }
  const ComparedQuantity first = compared(base, candidate).at(0);
  EXPECT_EQ(first.change, Change::too_few);  // p is at least 2 · 2 / 2^6, and 2 · 2 / 2^7 would do
  EXPECT_EQ(first.note, "2 quantities together need 7 processes of each");
}

TEST(Change, OfVirtualTimesIsExact) {
  RecordList base = {measured("64", {1})}, candidate = {measured("64", {1 + 1e-6})};
  base[0].source = candidate[0].source = Source::simulated;
  EXPECT_EQ(change_of(base, base), Change::same);
  EXPECT_EQ(change_of(base, candidate), Change::slower);
  EXPECT_FALSE(compared(base, candidate).at(0).p);
  EXPECT_EQ(compared(base, candidate).at(0).ratio->value, 1 + 1e-6);
}

TEST(Change, OfMemoryIsExactAndNamesTheKind) {
  RecordList base = {measured("64", {1})};
  base[0].memory.emplace();
  base[0].memory->peak_total = 100;
  base[0].memory->peak[0] = 60;
  RecordList candidate = base;
  const auto same = compared(base, candidate);
  ASSERT_EQ(same.size(), 2);
  EXPECT_EQ(same[1].quantity, "peak memory");
  EXPECT_EQ(same[1].change, Change::same);
  candidate[0].memory->peak_total = 99;
  candidate[0].memory->peak[0] = 59;
  const auto less = compared(base, candidate);
  ASSERT_EQ(less.size(), 3);
  EXPECT_EQ(less[1].change, Change::less);
  EXPECT_EQ(less[2].quantity, "peak " + std::string(name_of(engine::Kind{})) + " memory");
}

TEST(Change, OfLossesIsExactAndSaysWhere) {
  RecordList base = {measured("64", {1})};
  base[0].losses = {4, 3, 2};
  RecordList candidate = base;
  EXPECT_EQ(compared(base, candidate).at(1).change, Change::same);
  candidate[0].losses[1] = 6;
  const ComparedQuantity losses = compared(base, candidate).at(1);
  EXPECT_EQ(losses.quantity, "losses");
  EXPECT_EQ(losses.change, Change::different);
  EXPECT_THAT(losses.note, HasSubstr("first at 2 of 3: 3 and 6; at most 1 of it apart"));
}

TEST(Change, OfLossesThatDifferFromRunToRunIsAmbiguous) {
  RecordList base = processes(measured("64", {}), {{1}, {1}});
  base[0].losses = {4};
  base[1].losses = {4.1};
  EXPECT_EQ(compared(base, base).at(1).change, Change::ambiguous);
}

TEST(Change, OfWhatIsObservedOnceIsNotJudgedThoughItIsNoTime) {
  RecordList base = {measured("64", {1})};
  base[0].metrics["bubble"] = {"1", {0.213, 0.215}};
  RecordList candidate = base;
  candidate[0].metrics["bubble"] = {"1", {0.214, 0.216}};
  const ComparedQuantity bubble = compared(base, candidate).at(0);
  EXPECT_EQ(bubble.quantity, "bubble");
  EXPECT_EQ(bubble.change, Change::too_few);
}

TEST(Change, OfNumbersThatAreNotAboveZeroIsAmbiguous) {
  RecordList base = eight(1, 0.002), candidate = eight(1, 0.002);
  for (size_t i = 0; i < base.size(); ++i) {
    base[i].metrics["error"] = {"1", {i % 2 == 0 ? 0.1 : -0.1}};
    candidate[i].metrics["error"] = {"1", {0.0}};
  }
  const ComparedQuantity error = compared(base, candidate).at(0);
  EXPECT_EQ(error.quantity, "error");
  EXPECT_EQ(error.change, Change::ambiguous);
  EXPECT_FALSE(error.p);
}

TEST(Change, OfATurnWhoseOtherSideRanOutOfMemoryDoesNotCount) {
  RecordList base = six(1, 0), candidate = six(1.05, 5);
  const auto fail = [](Record& record) {
    record.metrics.clear();
    record.status = Status::oom;
    record.reason = "too large";
  };
  fail(base[0]);       // its turn's other process took 1.05
  fail(candidate[1]);  // its turn's took 2
  const std::vector<ComparedQuantity> found = compared(base, candidate);
  EXPECT_EQ(found.at(0).quantity, "status");
  EXPECT_EQ(found.at(0).note, "1 of 6 oom, and 1 of 6 oom");
  EXPECT_EQ(found.at(1).base_processes, 4);
  EXPECT_NEAR(found.at(1).ratio->value, 1.05, 1e-12);
}

TEST(Change, OfHowACaseEndedIsADifference) {
  const RecordList base = {measured("64", {1})};
  Record oom = measured("64", {});
  oom.metrics.clear();
  oom.status = Status::oom;
  oom.reason = "too large";
  const ComparedQuantity status = compared(base, {oom}).at(0);
  EXPECT_EQ(status.quantity, "status");
  EXPECT_EQ(status.change, Change::different);
  EXPECT_EQ(status.note, "ok, and oom: too large");
}

}  // namespace
}  // namespace frugal::harness
