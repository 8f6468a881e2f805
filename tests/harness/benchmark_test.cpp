#include "harness/measure/benchmark.h"

#include <gmock/gmock.h>

#include <cmath>

#include "harness/cli/command_line.h"
#include "harness/measure/runner.h"
#include "harness/measure/runs/case_run.h"
#include "harness/report/commands/benchmark_report.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Takes as long as it is told to by a clock that does not run.
class Pretended : public CaseRun {
 public:
  Pretended(double work, double seconds) : work_(work), seconds_(seconds) {}
  void observe(Record& record) override { record.add_sample(metric::work, "FLOP", work_); }
  void time(Record& record, bool keep) override {
    const double drift = 1 + 0.1 * std::sin(++rounds_);  // the same for all in a round
    if (keep) record.add_sample(metric::time, "s", seconds_ * drift);
  }

 private:
  double work_, seconds_;
  int rounds_ = 0;
};

/// A benchmark as HACKING.md describes it: this value, and a line in a list.
const Benchmark& example() {
  using Shows = ResultColumn::Shows;
  static const Benchmark benchmark = {
      .name = "example",
      .title = "Sorting, by bubbles and by halves",
      .axes = {{"elements", {"10", "1000"}}, {"by", {"bubbles", "halves", "luck"}}},
      .at = [](const Point& point) -> std::optional<BenchmarkCase> {
        const std::string by = point.at("by");
        const double n = std::stod(point.at("elements"));
        if (by == "luck" && n > 10) return std::nullopt;
        const double seconds = by == "bubbles" ? n * n : by == "luck" ? 1 : n;
        return BenchmarkCase{.make = [n, seconds](const Target&) {
          return std::make_unique<Pretended>(n, seconds);
        }};
      },
      .by_turns = {"by"},
      .reference = Reference{"by", {"halves", "luck"}},
      .columns = {{"elements/s", metric::time, Shows::rate},
                  {"time, times the best", metric::time, Shows::ratio},
                  {"speed, times the best", metric::time, Shows::speed}}};
  return benchmark;
}

std::vector<std::string> ids_of(const std::vector<Case>& cases) {
  std::vector<std::string> ids;
  for (const Case& c : cases) ids.push_back(c.id);
  return ids;
}

std::vector<Record> run(const std::vector<Case>& cases, const TimingPlan& timing = {}) {
  RecordFile in_memory;
  Progress progress;
  return Runner(in_memory, progress, {.timing = timing, .command = "frugal bench example"})
      .run(example().artifact(), cases)
      .all();
}

TEST(Benchmark, HasACaseAtEachPointOfItsAxes) {
  EXPECT_THAT(ids_of(cases_of(example(), "cpu", "")),
              ElementsAre("10/bubbles", "10/halves", "10/luck", "1000/bubbles", "1000/halves"));
}

TEST(Benchmark, WhatIsTimedByTurnsIsChosenTogether) {
  EXPECT_THAT(ids_of(cases_of(example(), "cpu", "1000/b*")),
              ElementsAre("1000/bubbles", "1000/halves"));
  EXPECT_THAT([] { cases_of(example(), "cpu", "x*"); },
              ThrowsMessage<InputError>(HasSubstr("--case x*: no case of example matches")));
  EXPECT_THAT([] { cases_of(example(), "cuda", ""); },
              ThrowsMessage<InputError>(HasSubstr("example runs on cpu")));
}

TEST(Benchmark, GivesRecordsOfTheSameRounds) {
  const std::vector<Record> records = run(cases_of(example(), "cpu", ""), {.samples = 12});
  ASSERT_EQ(records.size(), 5U);
  for (const Record& record : records) {
    ASSERT_TRUE(record.ok()) << record.reason;
    EXPECT_EQ(record.what, "benchmark");
    EXPECT_EQ(record.artifact, "bench/example");
    EXPECT_EQ(record.samples(metric::time).size(), 12U);
    EXPECT_EQ(record.options.at("samples"), "12");
    EXPECT_TRUE(to_json(record).at("configuration").is_null());
    const Record again = record_from_json(to_json(record), "a record");
    EXPECT_EQ(fingerprint_of(again), record.fingerprint);
  }
  EXPECT_EQ(records[3].options.at("elements"), "1000");
  EXPECT_EQ(records[0].rounds, records[2].rounds);
  EXPECT_NE(records[2].rounds, records[3].rounds);
}

/// The drift of the rounds, a tenth, is in the rate's interval and cancels in the ratio.
TEST(Benchmark, IsHeldAgainstTheFastestReferenceByRounds) {
  const std::vector<Record> records = run(cases_of(example(), "cpu", ""));
  const Table table = benchmark_table(example(), records);
  ASSERT_EQ(table.rows.size(), 5U);
  const auto cell = [&](size_t row, const std::string& name) {
    for (size_t i = 0; i < table.columns.size(); ++i)
      if (table.columns[i].name == name) return table.rows[row][i];
    throw std::out_of_range(name);
  };
  EXPECT_THAT(cell(0, "elements/s"), HasSubstr("0.1"));
  EXPECT_EQ(cell(0, "time, times the best"), "100 [100, 100]");  // luck's second, not ten
  EXPECT_EQ(cell(3, "time, times the best"), "1000 [1000, 1000]");
  EXPECT_EQ(cell(3, "speed, times the best"), "0.001 [0.001, 0.001]");
  EXPECT_EQ(cell(1, "time, times the best"), "");  // a reference itself
  EXPECT_EQ(cell(0, "source"), "measured, cpu");
  EXPECT_EQ(cell(0, "rounds"), "20");
}

TEST(Benchmark, RoundsEndWhenTimesAreKnownWellEnough) {
  const auto rounds = [](double precision) {
    return run(cases_of(example(), "cpu", ""),
               {.samples = 10, .budget = 1e9, .stop = "precision", .precision = precision})
        .front();
  };
  EXPECT_EQ(rounds(0.5).samples(metric::time).size(), 10U);
  const Record fine = rounds(0.03);
  const Estimate time = median_estimate(fine.samples(metric::time));
  EXPECT_GT(time.samples, 10);
  EXPECT_LE(time.interval->high - time.interval->low, 2 * 0.03 * time.value);
  EXPECT_EQ(fine.options.at("precision"), "0.03");
  EXPECT_EQ(fine.options.count("samples"), 0U);
}

TEST(Benchmark, IsListedByTheCommand) {
  const char* const arguments[] = {"frugal", "bench"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(CommandLine({}, {&example()}).main(2, arguments), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("example    elements (2), by (3)  Sorting, by bubbles and by halves"));
}

}  // namespace
}  // namespace frugal::harness
