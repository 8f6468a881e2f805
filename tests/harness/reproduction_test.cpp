#include "harness/reproduction.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/harness/support.h"

namespace frugal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Cell cell(double paper, double value) {
  Cell c;
  c.artifact = "paper/table";
  c.row = "a, \"b\" | <c>";
  c.column = "time";
  c.unit = "ms";
  c.paper = paper;
  c.read = "printed";
  c.value = value;
  c.on = "virtual:machine";
  return c;
}

TEST(Cell, ErrorIsRelativeToThePapersSize) {
  EXPECT_DOUBLE_EQ(*cell(10, 11).error_percent(), 10);
  EXPECT_DOUBLE_EQ(*cell(-4, -3).error_percent(), 25);
  EXPECT_FALSE(cell(0, 1).error_percent());
  Cell seconds_at_scale = cell(10, 11);
  seconds_at_scale.comparable = false;
  EXPECT_FALSE(seconds_at_scale.error_percent());
  Cell without = cell(10, 11);
  without.value.reset();
  EXPECT_FALSE(without.error_percent());
}

TEST(Claim, VerdictFollowsFromRelationAndTolerance) {
  Claim claim;
  claim.paper = 90;
  claim.tolerance = 2;
  const auto verdict = [&](Claim::Relation relation, double value) {
    claim.relation = relation;
    claim.value = value;
    return claim.verdict();
  };
  using R = Claim::Relation;
  EXPECT_EQ(verdict(R::about, 92), Verdict::reproduced);
  EXPECT_EQ(verdict(R::about, 87.9), Verdict::not_reproduced);
  EXPECT_EQ(verdict(R::about, 92.1), Verdict::not_reproduced);
  EXPECT_EQ(verdict(R::at_least, 200), Verdict::reproduced);
  EXPECT_EQ(verdict(R::at_least, 88.1), Verdict::reproduced);
  EXPECT_EQ(verdict(R::at_most, 91.9), Verdict::reproduced);
  EXPECT_EQ(verdict(R::at_least, 87.9), Verdict::not_reproduced);
  EXPECT_EQ(verdict(R::at_most, -200), Verdict::reproduced);
  EXPECT_EQ(verdict(R::at_most, 92.1), Verdict::not_reproduced);
  EXPECT_EQ(verdict(R::about, NAN), Verdict::not_measurable);
  claim.value.reset();
  EXPECT_EQ(claim.verdict(), Verdict::not_measurable);
}

TEST(Scale, IsOneOrAFraction) {
  EXPECT_EQ(scale_name(1), "1");
  EXPECT_EQ(scale_name(8), "1/8");
  EXPECT_EQ(parse_scale("1"), 1);
  EXPECT_EQ(parse_scale("1/8"), 8);
  for (const char* wrong : {"", "8", "1/", "1/0", "1/-2", "2/4", "1/8 ", "1/x"})
    EXPECT_FALSE(parse_scale(wrong)) << wrong;
}

Reproduction two_sources() {
  Reproduction r;
  r.cells = {cell(10, 11), cell(10, 7)};
  r.cells[1].source = Source::measured;
  r.cells[1].on = "cpu";
  r.cells[1].scale = 4;
  r.cells[1].interval = {6.5, 7.5};
  r.cells[1].comparable = false;
  r.cells[1].reason = "milliseconds at another scale";
  return r;
}

TEST(CellTable, NeverMixesSourcesInAColumn) {
  const Table table = cell_table(two_sources(), "paper/table");
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.columns[4].name, "virtual:machine");
  EXPECT_EQ(table.columns[6].name, "measured cpu at 1/4");
  const std::vector<std::string> expected{"a, \"b\" | <c>", "time",         "ms", "10", "11",
                                          "+10.00",         "7 [6.5, 7.5]", ""};
  EXPECT_EQ(table.rows[0], expected);
  EXPECT_EQ(remarks(two_sources(), "paper/table").size(), 1U);
}

TEST(Reproduction, JsonHasTheDocumentedKeys) {
  Reproduction r = two_sources();
  r.cells[0].value.reset();
  r.cells[0].status = Status::oom;
  r.claims.emplace_back();
  const nlohmann::json json = to_json(r);
  EXPECT_EQ(json["schema"], "frugal.reproduction/1");
  EXPECT_TRUE(json["cells"][0]["value"].is_null());
  EXPECT_EQ(json["cells"][0]["status"], "oom");
  EXPECT_EQ(json["cells"][1]["source"], "measured");
  EXPECT_EQ(json["cells"][1]["scale"], "1/4");
  EXPECT_TRUE(json["cells"][1]["error_percent"].is_null());
  EXPECT_EQ(json["cells"][1]["interval"], nlohmann::json({6.5, 7.5}));
  EXPECT_EQ(json["claims"][0]["verdict"], "not measurable here");
}

TEST(Reproduction, CsvAndMarkdownEscape) {
  EXPECT_THAT(to_csv(two_sources()),
              HasSubstr("\"a, \"\"b\"\" | <c>\",time,ms,10.0,printed,11.0,,,"));
  EXPECT_THAT(to_markdown(two_sources()), HasSubstr("\\| <c>"));
  const std::string html = cell_table(two_sources(), "paper/table").html();
  EXPECT_THAT(html, HasSubstr("&lt;c&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<c>")));
}

TEST(Table, AlignsCharactersNotBytes) {
  const Table table{{{"é"}, {"n", true}}, {{"ab", "1"}, {"≥", "22"}}};
  EXPECT_EQ(table.text(), "é    n\n--  --\nab   1\n≥   22\n");
}

TEST(FormatNumber, KeepsWholeNumbersAndFourDigits) {
  EXPECT_EQ(format_number(7079985152.0), "7079985152");
  EXPECT_EQ(format_number(0.123456), "0.1235");
  EXPECT_EQ(format_number(-3.0), "-3");
  EXPECT_EQ(format_number(2.5e20), "2.5e+20");
}

}  // namespace
}  // namespace frugal
