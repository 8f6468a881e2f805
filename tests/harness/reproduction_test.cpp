#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "harness/report/measurement.h"
#include "harness/report/verdicts.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_FALSE(cell(10, 11).error_points());
  Cell seconds_at_scale = cell(10, 11);
  seconds_at_scale.paper.reset();
  EXPECT_FALSE(seconds_at_scale.error_percent());
  seconds_at_scale.formula = 8;
  EXPECT_DOUBLE_EQ(*seconds_at_scale.error_percent(), 37.5);
  Cell without = cell(10, 11);
  without.value.reset();
  EXPECT_FALSE(without.error_percent());
}

/// 4 % for 5.3 % is 1.3 points off, not a third.
TEST(Cell, ErrorOfAPercentageIsInPoints) {
  Cell c = cell(5.3, 4);
  c.unit = "%";
  EXPECT_FALSE(c.error_percent());
  EXPECT_DOUBLE_EQ(*c.error_points(), 4 - 5.3);
  c.paper = 0;
  EXPECT_DOUBLE_EQ(*c.error_points(), 4);
  Reproduction r;
  r.cells = {cell(5.3, 4)};
  r.cells[0].unit = "%";
  EXPECT_EQ(cell_tables(r)[0].table.rows[0][5], "-1.30 pt");
  EXPECT_TRUE(to_json(r)["cells"][0]["error_percent"].is_null());
}

/// Where both ran out of memory, there are two words and no number.
TEST(Cell, ThePaperMayHaveRunOutOfMemory) {
  Cell c = cell(10, 11);
  c.paper.reset();
  c.paper_oom = true;
  Reproduction r;
  r.cells = {c, c};
  r.cells[1].row = "another";
  r.cells[1].value.reset();
  r.cells[1].status = Status::oom;
  const Table table = cell_tables(r)[0].table;
  EXPECT_EQ(table.columns[3].name, "paper");
  EXPECT_EQ(table.rows[0][3], "oom");
  EXPECT_EQ(table.rows[1][3], "oom");
  EXPECT_EQ(table.rows[1][4], "oom");
  EXPECT_TRUE(to_json(r)["cells"][0]["paper_oom"]);
  EXPECT_TRUE(to_json(r)["cells"][0]["error_percent"].is_null());
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

TEST(Claim, IsReproducedByItsWholeIntervalOrNot) {
  Claim claim;
  claim.paper = 90;
  claim.tolerance = 2;
  const auto verdict = [&](double low, double value, double high) {
    claim.value = value;
    claim.interval = {low, high};
    return claim.verdict();
  };
  EXPECT_EQ(verdict(88, 90, 92), Verdict::reproduced);
  EXPECT_EQ(verdict(91, 91.9, 95), Verdict::undecided);
  EXPECT_EQ(verdict(80, 90, 100), Verdict::undecided);
  EXPECT_EQ(verdict(91.9, 93, 95), Verdict::undecided);
  EXPECT_EQ(verdict(92.1, 93, 95), Verdict::not_reproduced);
  EXPECT_EQ(verdict(80, 87, 88.1), Verdict::undecided);
  EXPECT_EQ(verdict(80, 87, 87.9), Verdict::not_reproduced);
  claim.relation = Claim::Relation::at_least;
  EXPECT_EQ(verdict(88, 95, 200), Verdict::reproduced);
  EXPECT_EQ(verdict(87, 95, 200), Verdict::undecided);
  EXPECT_EQ(verdict(80, 87, 88.1), Verdict::undecided);
  EXPECT_EQ(verdict(80, 87, 87.9), Verdict::not_reproduced);
  claim.relation = Claim::Relation::at_most;
  EXPECT_EQ(verdict(-200, 80, 92), Verdict::reproduced);
  EXPECT_EQ(verdict(-200, 80, 92.1), Verdict::undecided);
  EXPECT_EQ(verdict(91.9, 93, 95), Verdict::undecided);
  EXPECT_EQ(verdict(92.1, 93, 95), Verdict::not_reproduced);
}

Claim overhead(double papers, double tolerance, double value, Interval interval) {
  Claim claim;
  claim.source = Source::measured;
  claim.timed = true;
  claim.unit = "%";
  claim.paper = papers;
  claim.tolerance = tolerance;
  claim.no_effect = 0;
  claim.value = value;
  claim.interval = interval;
  claim.samples = 20;
  return claim;
}

/// Both values are near the paper's; neither interval says that the overheads are.
TEST(Claim, NoiseReproducesNothing) {
  EXPECT_EQ(overhead(-3, 0.5, -2.72, {-13.3, 4.4}).verdict(), Verdict::undecided);
  EXPECT_EQ(overhead(39, 1, 38.7, {19.6, 48.4}).verdict(), Verdict::undecided);
  EXPECT_EQ(overhead(39, 1, 38.7, {38.1, 39.4}).verdict(), Verdict::reproduced);
}

TEST(Claim, AnIntervalThatHasNoEffectReproducesNothing) {
  Claim claim = overhead(3, 4, 2, {-0.5, 4});
  EXPECT_EQ(claim.verdict(), Verdict::undecided);
  claim.interval = {0.1, 4};
  EXPECT_EQ(claim.verdict(), Verdict::reproduced);
}

TEST(Claim, OfADirectionTheSideCountsAlone) {
  Claim claim = overhead(39, 0, 12, {3, 200});
  claim.relation = Claim::Relation::direction;
  EXPECT_EQ(claim.verdict(), Verdict::reproduced);
  EXPECT_FALSE(claim.passes_without_effect());
  claim.interval = {-1, 200};
  EXPECT_EQ(claim.verdict(), Verdict::undecided);
  claim.interval = {-20, -1};
  EXPECT_EQ(claim.verdict(), Verdict::not_reproduced);
  claim.paper = -3;
  EXPECT_EQ(claim.verdict(), Verdict::reproduced);
  Reproduction r;
  r.claims = {claim};
  r.claims[0].scale = 8;
  const Table table = claim_table(r);
  EXPECT_EQ(table.rows[0][1], "< 0 % (-3 % at full size)");
  EXPECT_EQ(table.rows[0][2], "direction");
  EXPECT_EQ(to_json(r)["claims"][0]["relation"], "direction");
}

/// A time measured once may be off by any amount; a count is exact.
TEST(Claim, ATimeWithoutAnIntervalIsUndecided) {
  Claim claim = overhead(39, 1, 39, {});
  claim.interval.reset();
  EXPECT_EQ(claim.verdict(), Verdict::undecided);
  EXPECT_EQ(claim.why_undecided(), "timed without an interval, which 6 samples have");
  claim.timed = false;
  EXPECT_EQ(claim.verdict(), Verdict::reproduced);
  claim.timed = true;
  claim.source = Source::simulated;
  EXPECT_EQ(claim.verdict(), Verdict::reproduced);
}

TEST(Reproduction, TextSaysWhatWouldDecide) {
  Reproduction r;
  r.claims = {overhead(39, 1, 39, {37, 40}), overhead(39, 1, 39, {38.5, 39.5})};
  r.claims[0].id = "open";
  r.claims[1].id = "closed";
  r.claims[0].reason = r.claims[0].why_undecided();
  r.cells.emplace_back();
  static_cast<Comparison&>(r.cells[0]) = overhead(39, 0, 39, {-37, 40});
  r.cells[0].relation = Comparison::Relation::direction;
  r.cells[0].justification = "the direction alone";
  r.cells[0].row = "row";
  r.cells[0].column = "column";
  r.cells[0].reason = "more rounds";
  const std::string text = to_text(r);
  EXPECT_THAT(text, HasSubstr("\n- open, measured : about 60 more rounds would decide it"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("- closed")));
  EXPECT_THAT(text, HasSubstr("direction undecided"));
  EXPECT_THAT(text, HasSubstr("- measured : the direction alone\n"));
  EXPECT_THAT(text, HasSubstr("- measured : row, column: more rounds\n"));
}

/// An interval of four times as many samples is half as wide.
TEST(Claim, SaysHowManyMoreRoundsWouldDecideIt) {
  EXPECT_EQ(overhead(39, 1, 39, {37, 40}).rounds_to_decide(), 60);     // of 80, it ends at 38
  EXPECT_EQ(overhead(39, 1, 41, {39, 44}).rounds_to_decide(), 60);     // it begins at 40
  EXPECT_EQ(overhead(39, 1, 36, {35, 39}).rounds_to_decide(), 25);     // of 45, it ends at 38
  EXPECT_EQ(overhead(39, 1, 38.5, {37, 39}).rounds_to_decide(), 160);  // of 180, it begins at 38
  EXPECT_EQ(overhead(39, 1, 40, {38, 41}).rounds_to_decide(), std::nullopt);
  EXPECT_EQ(overhead(39, 1, 40, {38, 41}).why_undecided(),
            "more rounds will hardly decide it: it is at the edge");
  EXPECT_EQ(overhead(39, 1, 39, {37, 40}).why_undecided(),
            "about 60 more rounds would decide it, by the spread seen");
  for (const auto& [count, said] : {std::pair(1.0, "about 1 more"),
                                    {7.0, "about 7 more"},
                                    {99.0, "about 99 more"},
                                    {101.0, "about 110 more"},
                                    {149387.0, "about 150000 more"}})
    EXPECT_THAT(more_rounds(count), ::testing::StartsWith(said));
}

TEST(Claim, WhatWasFittedCountsNeitherForNorAgainst) {
  Claim claim;
  claim.paper = 90;
  claim.fitted = true;
  EXPECT_EQ(claim.verdict(), Verdict::not_measurable);
  for (const double value : {90.0, 10.0}) {
    claim.value = value;
    EXPECT_EQ(claim.verdict(), Verdict::calibrated);
  }
}

TEST(Reproduction, OnlyUnexpectedClaimsFail) {
  Reproduction r;
  r.claims.resize(3);
  for (Claim& claim : r.claims) claim.paper = claim.value = 1;
  r.claims[0].value = 5;  // not reproduced, and known to be
  r.claims[0].expected = true;
  r.claims[1].value = 5;  // undecided
  r.claims[1].interval = {0, 9};
  r.claims[2].value = 5;
  r.claims[2].fitted = true;
  EXPECT_EQ(failed_claims(r), 0U);
  EXPECT_EQ(claim_table(r).rows[0][5], "not reproduced, as expected");
  EXPECT_EQ(claim_table(r).rows[1][4], "5 [0, 9]");
  EXPECT_EQ(claim_table(r).rows[2][4], "5 (fitted)");
  const nlohmann::json json = to_json(r);
  EXPECT_EQ(json["claims"][0]["expected"], true);
  EXPECT_EQ(json["claims"][1]["verdict"], "undecided");
  EXPECT_EQ(json["claims"][1]["interval"], nlohmann::json({0.0, 9.0}));
  EXPECT_EQ(json["claims"][2]["verdict"], "calibrated");
  r.claims[0].expected = false;
  EXPECT_EQ(failed_claims(r), 1U);
}

TEST(Comparison, OnlyWhatWasMeasuredWasSampled) {
  Cell c = cell(10, 11);
  c.set({3, {}, 1});
  EXPECT_EQ(c.samples, 0);
  c.source = Source::measured;
  c.set({3, {}, 4});
  EXPECT_EQ(c.samples, 4);
  Reproduction r;
  r.cells = {c};
  EXPECT_EQ(cell_tables(r)[0].table.rows[0][4], "3 (median of 4)");
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
  r.cells[1].paper.reset();
  r.cells[1].formula = 8;
  r.cells[1].note = "eight ranks";
  for (Cell& c : r.cells) c.tolerance = c.paper ? 1 : 0.6;
  return r;
}

TEST(CellTables, NeverMixSourcesInAColumnNorSizesInALine) {
  const auto tables = cell_tables(two_sources());
  ASSERT_EQ(tables.size(), 2U);
  const auto names = [](const Table& table) {
    std::vector<std::string> all;
    for (const auto& column : table.columns) all.push_back(column.name);
    return all;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(tables[0].heading, "paper/table");
  EXPECT_EQ(names(tables[0].table),
            (Texts{"row", "column", "unit", "paper", "virtual:machine", "error", "verdict"}));
  ASSERT_EQ(tables[0].table.rows.size(), 1U);
  EXPECT_EQ(tables[0].table.rows[0],
            (Texts{"a, \"b\" | <c>", "time", "ms", "10", "11", "+10.00 %", "reproduced"}));
  EXPECT_TRUE(tables[0].remarks.empty());
  EXPECT_EQ(tables[1].heading, "paper/table at 1/4");
  EXPECT_EQ(names(tables[1].table), (Texts{"row", "column", "unit", "formula at 1/4",
                                           "measured cpu at 1/4", "error", "verdict"}));
  EXPECT_EQ(tables[1].table.rows[0],
            (Texts{"a, \"b\" | <c>", "time", "ms", "8", "7 [6.5, 7.5]", "-12.50 %", "undecided"}));
  EXPECT_EQ(tables[1].remarks, Texts{"measured cpu at 1/4: eight ranks"});
}

/// A ratio that a scale model keeps may stand beside the paper's, which is named for its size.
TEST(CellTables, SayThatThePapersRatiosAreOfTheFullSize) {
  Reproduction r = two_sources();
  r.cells[1].paper = 9;
  r.cells[1].formula.reset();
  EXPECT_EQ(cell_tables(r)[1].table.columns[3].name, "paper, full size");
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
  EXPECT_TRUE(json["cells"][1]["paper"].is_null());
  EXPECT_EQ(json["cells"][1]["formula"], 8);
  EXPECT_EQ(json["cells"][1]["interval"], nlohmann::json({6.5, 7.5}));
  EXPECT_EQ(json["claims"][0]["verdict"], "not measurable here");
}

TEST(Reproduction, ClaimsAboutLoneRanksSayThatTheirCommunicationIsModelled) {
  Reproduction r;
  r.claims.resize(2);
  for (Claim& claim : r.claims) claim.paper = claim.value = 1;
  r.claims[0].links = "h200-hgx";
  r.claims[0].justification = "printed to a tenth";
  const nlohmann::json json = to_json(r);
  EXPECT_EQ(json["claims"][0]["note"], "communication modelled on h200-hgx");
  EXPECT_EQ(json["claims"][1]["note"], "");
  EXPECT_EQ(claim_table(r).rows[0].back(),
            "printed to a tenth; communication modelled on h200-hgx");
  EXPECT_EQ(claim_table(r).rows[1].back(), "");
}

TEST(MeasurementTable, SaysWhereFusedAttentionCostsItsProducts) {
  const auto lines = [](Source source, AttentionKind attention, const std::string& machine) {
    Record record = testing::full_record();
    record.source = source;
    record.on = "virtual:" + machine;
    record.config.attention = attention;
    const Table table = measurement_table(record);
    return std::count_if(table.rows.begin(), table.rows.end(), [](const auto& row) {
      return row[0] == "fused attention" && row[1] == "not calibrated";
    });
  };
  const std::string unknown = "v100-p3-16xlarge";  // no rate of attention is published of it
  EXPECT_EQ(lines(Source::simulated, AttentionKind::fused, unknown), 1);
  EXPECT_EQ(lines(Source::simulated, AttentionKind::fused, "no machine of ours"), 1);
  EXPECT_EQ(lines(Source::simulated, AttentionKind::fused, "a100-selene"), 0);
  EXPECT_EQ(lines(Source::measured, AttentionKind::fused, unknown), 0);
  EXPECT_EQ(lines(Source::simulated, AttentionKind::separate, unknown), 0);
}

TEST(Reproduction, CsvAndMarkdownEscape) {
  EXPECT_THAT(to_csv(two_sources()),
              HasSubstr("\"a, \"\"b\"\" | <c>\",time,ms,10.0,false,printed,,11.0,,,"));
  EXPECT_THAT(to_markdown(two_sources()), HasSubstr("\\| <c>"));
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
}  // namespace frugal::harness
