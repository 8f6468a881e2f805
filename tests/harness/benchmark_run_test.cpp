#include <gmock/gmock.h>

#include "harness/measure/benchmark.h"
#include "harness/measure/runs/case_run.h"
#include "harness/report/commands/benchmark_report.h"
#include "kernels/support/error.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Finds a word and two numbers.
class Found final : public CaseRun {
 public:
  void observe(Record& record) override {
    record.findings["word"] = "twelve";
    for (const double sample : {12, 11, 13, 12, 12, 12}) record.add_sample("number", "s", sample);
  }
};

Benchmark made(const std::string& on) {
  return {.name = "made",
          .title = "of a test",
          .axes = {{"which", {"a", "b"}}},
          .at =
              [on](const Point&) {
                return BenchmarkCase{
                    .make = [](const Target&) { return std::make_unique<Found>(); }, .on = on};
              },
          .columns = {{"in words", "word", ResultColumn::Shows::finding},
                      {"with", "number"},
                      {"without", "number", ResultColumn::Shows::value, 1, false}},
          .summary =
              [](const std::vector<Record>& records) {
                return std::vector<std::string>{std::to_string(records.size()) + " in all"};
              }};
}

TEST(BenchmarkRun, IsOnTheCpuUnlessTheUserOrTheCaseSaysOtherwise) {
  EXPECT_EQ(cases_of(made(""), "", "").front().on, "cpu");
  EXPECT_EQ(cases_of(made(""), "cpu", "").front().on, "cpu");
  EXPECT_EQ(cases_of(made("virtual:a100-selene"), "", "").front().on, "virtual:a100-selene");
  EXPECT_THAT([] { cases_of(made("virtual:a100-selene"), "cuda", ""); },
              ThrowsMessage<InputError>(HasSubstr("leave --on out")));
  EXPECT_THAT([] { cases_of(made(""), "cuda", ""); },
              ThrowsMessage<InputError>(HasSubstr("runs on cpu")));
}

TEST(BenchmarkRun, CasesOfARunShareWhatIsMadeForIt) {
  Benchmark benchmark = made("");
  std::vector<std::shared_ptr<int>> shared;
  benchmark.at_of_a_run = [&shared]() -> CaseAt {
    const auto own = shared.emplace_back(std::make_shared<int>(0));
    return [own](const Point&) {
      ++*own;
      return BenchmarkCase{.make = [](const Target&) { return std::make_unique<Found>(); }};
    };
  };
  EXPECT_EQ(cases_of(benchmark, "", "").size(), 2U);
  EXPECT_EQ(cases_of(benchmark, "", "a").size(), 1U);
  ASSERT_EQ(shared.size(), 2U);
  EXPECT_EQ(*shared.front(), 2);
  EXPECT_EQ(*shared.back(), 2);
}

Record found(const std::string& which) {
  Record record;
  record.case_id = which;
  record.on = "cpu";
  record.options["which"] = which;
  Found().observe(record);
  return record;
}

TEST(BenchmarkRun, AColumnShowsWordsOrANumberWithAndWithoutItsInterval) {
  const Table table = benchmark_table(made(""), {found("a")});
  ASSERT_EQ(table.columns.size(), 7U);
  EXPECT_EQ(table.columns[2].name, "in words");
  EXPECT_FALSE(table.columns[2].number);
  EXPECT_EQ(table.rows.front()[2], "twelve");
  EXPECT_THAT(table.rows.front()[3], HasSubstr("12 ["));
  EXPECT_EQ(table.rows.front()[4], "12");
  Record failed = found("b");
  failed.status = Status::failed;
  EXPECT_EQ(benchmark_table(made(""), {failed}).rows.front()[2], "");
}

TEST(BenchmarkRun, ASummaryStandsBelowTheTableButNotAmongTheRowsOfAFile) {
  const std::vector<Record> records = {found("a"), found("b")};
  for (const char* format : {"table", "markdown"})
    EXPECT_THAT(benchmark_text(made(""), records, format), HasSubstr("\n\n2 in all\n")) << format;
  EXPECT_THAT(benchmark_text(made(""), records, "csv"), Not(HasSubstr("in all")));
}

}  // namespace
}  // namespace frugal::harness
