#include "harness/report/verdicts.h"

#include <gmock/gmock.h>

#include "harness/report/inventory.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;

Cell judged_cell(double paper, double value) {
  Cell cell;
  cell.artifact = "paper/table";
  cell.row = "row";
  cell.column = "time";
  cell.unit = "s";
  cell.source = Source::simulated;
  cell.on = "virtual:machine";
  cell.paper = paper;
  cell.value = value;
  cell.tolerance = 1;
  cell.no_effect = 0;
  return cell;
}

Claim judged_claim(double paper, double value) {
  Claim claim;
  static_cast<Comparison&>(claim) = judged_cell(paper, value);
  claim.id = "claim";
  return claim;
}

Reproduction reproduced() {
  Reproduction r;
  r.cells = {judged_cell(10, 10.5)};
  r.claims = {judged_claim(10, 10.5)};
  return r;
}

TEST(Cell, HasAVerdictWhereThePaperHasSomething) {
  Cell cell = judged_cell(10, 11);
  EXPECT_EQ(cell.verdict(), Verdict::reproduced);
  cell.value = 11.5;
  EXPECT_EQ(cell.verdict(), Verdict::not_reproduced);
  cell.of_another_run = true;
  EXPECT_EQ(cell.verdict(), Verdict::not_comparable);
  cell = judged_cell(10, 11);
  cell.paper.reset();
  EXPECT_FALSE(cell.verdict());
  cell.formula = 10;
  EXPECT_EQ(cell.verdict(), Verdict::reproduced);
  cell.value.reset();
  EXPECT_EQ(cell.verdict(), Verdict::not_measurable);
  cell.status = Status::oom;
  EXPECT_EQ(cell.verdict(), Verdict::not_reproduced);
}

TEST(Cell, MemoryRunsOutWhereThePapersDoesOrNot) {
  Cell cell = judged_cell(10, 11);
  cell.paper.reset();
  cell.paper_oom = true;
  EXPECT_EQ(cell.verdict(), Verdict::not_reproduced);
  cell.value.reset();
  cell.status = Status::oom;
  EXPECT_EQ(cell.verdict(), Verdict::reproduced);
  cell.status = Status::timeout;
  EXPECT_EQ(cell.verdict(), Verdict::not_measurable);
}

TEST(Comparison, PassesWithoutEffectWhereItsBandReachesThere) {
  Comparison number = judged_cell(1.7, 1.7);
  EXPECT_FALSE(number.passes_without_effect());
  number.tolerance = 3;
  EXPECT_TRUE(number.passes_without_effect());
  number.tolerance = 0.85;
  number.relation = Comparison::Relation::at_most;
  EXPECT_TRUE(number.passes_without_effect());
  number.relation = Comparison::Relation::at_least;
  EXPECT_FALSE(number.passes_without_effect());
  number.no_effect.reset();
  EXPECT_TRUE(number.passes_without_effect()) << "nobody said what that is";
}

TEST(Check, CountsVerdicts) {
  Reproduction r = reproduced();
  r.cells.push_back(judged_cell(10, 15));
  r.cells.back().row = "another";
  EXPECT_TRUE(check(r).passed);
  EXPECT_EQ(check(r).text,
            "claims: 1 reproduced; 0 not reproduced for no known reason; 0 would be reproduced "
            "without any effect\ncells beside a number of the paper's: 1 reproduced, 1 not "
            "reproduced; 0 without a verdict\n");
}

TEST(Check, FailsForAClaimThatIsNotReproduced) {
  Reproduction r = reproduced();
  r.claims[0].value = 15;
  EXPECT_FALSE(check(r).passed);
  r.claims[0].expected = true;
  EXPECT_TRUE(check(r).passed);
}

TEST(Check, FailsForAClaimThatNoEffectWouldMeet) {
  Reproduction r = reproduced();
  r.claims[0].no_effect = 9.5;
  EXPECT_FALSE(check(r).passed);
  EXPECT_THAT(check(r).text, HasSubstr("1 would be reproduced without any effect"));
}

TEST(Check, FailsForACellWithoutAVerdict) {
  Reproduction r = reproduced();
  r.cells[0].tolerance.reset();
  EXPECT_FALSE(check(r).passed);
  EXPECT_THAT(check(r).text, HasSubstr("; 1 without a verdict"));
}

TEST(IsDecidedEarly, WhereTheWiderIntervalsDecide) {
  Reproduction r = reproduced();
  r.cells[0].source = Source::measured;
  r.cells[0].timed = true;
  r.cells[0].interval = {9.5, 10.8};
  r.cells[0].early = {9.3, 11.2};
  EXPECT_EQ(r.cells[0].verdict(), Verdict::reproduced);
  EXPECT_FALSE(is_decided_early(r));
  r.cells[0].early = {9.3, 10.9};
  EXPECT_TRUE(is_decided_early(r));
  static_cast<Comparison&>(r.claims[0]) = r.cells[0];
  r.claims[0].early.reset();  // too few samples for one
  EXPECT_FALSE(is_decided_early(r));
  r.claims.clear();
  r.cells[0].interval = {12, 14};
  r.cells[0].early = {10.5, 15};
  EXPECT_FALSE(is_decided_early(r)) << "it reaches into the band";
  r.cells[0].of_another_run = true;
  EXPECT_TRUE(is_decided_early(r)) << "no round makes it comparable";
}

/// What the paper measured is its program.
TEST(Check, CountsThePapersProgramBeforeFrugal) {
  Reproduction r = reproduced();
  r.claims.push_back(r.claims[0]);
  r.claims[0].value = 15;
  r.claims[1].program = "program";
  EXPECT_TRUE(check(r).passed);
  std::swap(r.claims[0].value, r.claims[1].value);
  EXPECT_FALSE(check(r).passed);
}

TEST(Inventory, SaysWhatBecameOfEachRow) {
  const Inventory inventory{"paper",
                            "A paper",
                            {{"table 1", "times", {"paper/none", "paper/table"}, ""},
                             {"table 2", "more", {"paper/other"}, ""},
                             {"figure 1", "a drawing", {}, "no numbers"}}};
  const Table table = inventory_table(inventory, reproduced());
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0][2], "none, table");
  EXPECT_EQ(table.rows[0][3], "1 reproduced");
  EXPECT_EQ(table.rows[1][3], "not run");
  EXPECT_EQ(table.rows[2][3], "no numbers");
  EXPECT_THAT(inventory_markdown({inventory}),
              HasSubstr("| table 1 | times | `none`, `table` |  |"));
}

}  // namespace
}  // namespace frugal::harness
