#include <gmock/gmock.h>

#include "harness/cli/command_line.h"
#include "harness/measure/runner.h"
#include "tests/experiments/example/table1.h"

namespace frugal::experiments::example {
namespace {

using ::testing::HasSubstr;

Records executed(const Selection& selection) {
  RecordFile in_memory;
  const std::vector<Case> cases = table1().cases(selection);
  Progress progress(cases.size());
  return Runner(in_memory, progress, {.command = "frugal test"}).run(table1().id(), cases);
}

Selection virtually(int64_t scale) {
  return {.virtual_machine = true, .cpu = false, .cuda = {}, .scale = scale};
}

TEST(Example, IsListed) {
  const char* const arguments[] = {"frugal", "list"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(CommandLine({&table1()}).main(2, arguments), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("example/table1      4  Activations of one layer of a tiny GPT"));
}

TEST(Example, GivesItsCellsAndClaims) {
  const Records records = executed(virtually(1));
  const std::vector<Cell> cells = table1().cells(records);
  ASSERT_EQ(cells.size(), 3U);
  // sbh (34 + 5as/h), and sbh 34
  EXPECT_EQ(cells[0].value, 64 * 2 * 128 * (34 + 5 * 4 * 64 / 128));
  EXPECT_EQ(cells[1].value, 64 * 2 * 128 * 34);
  EXPECT_EQ(cells[0].paper, cells[0].value);
  EXPECT_NEAR(cells[2].value.value(), 100 * (1 - 34.0 / 44), 1e-9);
  const std::vector<Claim> claims = table1().claims(records);
  ASSERT_EQ(claims.size(), 3U);
  for (const Claim& claim : claims) EXPECT_EQ(claim.verdict(), Verdict::reproduced) << claim.id;
  EXPECT_EQ(claims[1].id, "table1/selective");
  EXPECT_EQ(claims[1].statement, "selective: a layer keeps 557056 bytes");
  EXPECT_EQ(claims[2].statement, "selective recomputation saves 23 % of the table1's bytes");
  EXPECT_EQ(claims[2].tolerance, 0.5);
}

/// Bytes of another size are beside none of the paper's, and nothing is claimed of them.
TEST(Example, AtAnotherSizeStandsBesideNothing) {
  const Records records = executed(virtually(2));
  for (const Cell& cell : table1().cells(records)) {
    EXPECT_TRUE(cell.value) << cell.reason;
    EXPECT_FALSE(cell.paper) << cell.row;
  }
  EXPECT_TRUE(table1().claims(records).empty());
}

TEST(Example, ACaseThatEndsBadlyIsTheOutcomeOfWhatIsMadeOfIt) {
  const Records well = executed(virtually(1));
  Records records;
  for (Record record : well.all()) {
    if (record.case_id == "none") {
      record.status = Status::oom;
      record.reason = "did not fit";
    }
    records.add(std::move(record));
  }
  for (const Cell& cell : table1().cells(records)) {
    const bool without = cell.row == "selective" && cell.unit == "bytes";
    EXPECT_EQ(cell.value.has_value(), without) << cell.column;
    EXPECT_EQ(cell.status, without ? Status::ok : Status::oom) << cell.column;
    EXPECT_EQ(cell.reason, without ? "" : "did not fit") << cell.column;
  }
}

}  // namespace
}  // namespace frugal::experiments::example
