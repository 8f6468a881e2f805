// Numbers that a person reads, computed a second time from the raw values of a record.
#include <gtest/gtest.h>

#include <map>

#include "harness/report/measurement.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using testing::full_record;
using namespace std::string_literals;

/// A record whose numbers all differ, so that none can stand for another.
Record distinct_record() {
  Record r = full_record();
  r.on = "cuda";
  r.config.data_parallel = 2;
  r.metrics = {{"step_time", {"s", {0.5, 0.25, 4, 1, 2}}}};
  r.memory = Memory{{},
                    BytesPerKind{1 << 10, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20, 7 << 20},
                    3 << 20,
                    int64_t{5} << 30};
  r.flops = Flops{1.25e15, "eq", 1.5e15, "executed", {}};
  r.utilization = Utilization{1e15, 8e14, {0.25, ""}, {0.3125, ""}, {0.3, ""}, {0.375, ""}};
  return r;
}

using Rows = std::map<std::string, std::pair<std::string, std::string>>;
Rows rows_of(const Record& record) {
  Rows rows;
  for (const auto& row : measurement_table(record).rows) rows[row.at(0)] = {row.at(1), row.at(2)};
  return rows;
}

TEST(PrintedValues, UtilizationsAreThoseOfTheirPeaksInPercent) {
  const Rows rows = rows_of(distinct_record());
  EXPECT_EQ(rows.at("MFU, data-sheet peak"), std::pair("25"s, "%"s));
  EXPECT_EQ(rows.at("HFU, data-sheet peak"), std::pair("30"s, "%"s));
  EXPECT_EQ(rows.at("MFU, measured peak (best median GEMM)"), std::pair("31.25"s, "%"s));
  EXPECT_EQ(rows.at("HFU, measured peak (best median GEMM)"), std::pair("37.5"s, "%"s));
  EXPECT_EQ(rows.at("model FLOPs").first, "1.25e+15");
  EXPECT_EQ(rows.at("hardware FLOPs").first, "1.5e+15");
}

TEST(PrintedValues, ColumnsOfComparedRecordsAreThoseOfTheirNames) {
  const Table table = comparison_table({{"case"}}, {{"a"}}, {distinct_record()});
  std::map<std::string, std::string> cells;
  for (size_t i = 0; i < table.columns.size(); ++i)
    cells[table.columns[i].name] = table.rows.at(0).at(i);
  EXPECT_EQ(cells.at("MFU, % of data sheet"), "25");
  EXPECT_EQ(cells.at("HFU, % of data sheet"), "30");
  EXPECT_EQ(cells.at("MFU, % of measured peak"), "31.25");
  EXPECT_EQ(cells.at("HFU, % of measured peak"), "37.5");
  EXPECT_EQ(cells.at("peak memory of a rank"), "3 MiB");
  EXPECT_EQ(cells.at("step time, s"), "1, 5 steps");  // the median
}

TEST(PrintedValues, BytesAreInBinaryUnits) {
  const Rows rows = rows_of(distinct_record());
  EXPECT_EQ(rows.at("peak parameter memory of a rank"), std::pair("1"s, "KiB"s));
  EXPECT_EQ(rows.at("peak gradient memory of a rank"), std::pair("2"s, "MiB"s));
  EXPECT_EQ(rows.at("peak memory of a rank"), std::pair("3"s, "MiB"s));
  EXPECT_EQ(rows.at("memory reserved by its device"), std::pair("5"s, "GiB"s));
}

/// t 2 x d 2 ranks, 3 x 5 x 2 sequences of 8 tokens, a second a step.
TEST(PrintedValues, CostIsDeviceHoursOfABillionTokens) {
  const Rows rows = rows_of(distinct_record());
  EXPECT_NEAR(std::stod(rows.at("cost").first), 4 * 1e9 / (3 * 5 * 2 * 8) / 3600, 1);
}

TEST(PrintedValues, StragglersAndWaitsAreInTheirUnits) {
  Record r = distinct_record();
  r.ranks.emplace();
  r.ranks->ranks = {
      {0, {}, {0, 0, 0.125, 0, 0}}, {0, {}, {0, 0, 0.5, 0, 0}}, {0, {}, {0, 0, 0.25, 0, 0}}};
  r.ranks->skew.median = 0.375;
  r.ranks->straggler = RankStatistics::Straggler{1, 0.08};
  r.environment = "{}";
  const Rows rows = rows_of(r);
  EXPECT_EQ(rows.at("waiting of the ranks in a step").first, "0.125 to 0.5");
  EXPECT_EQ(rows.at("skew between ranks").first, "0.375");
  EXPECT_EQ(rows.at("straggling rank").first, "1");
  EXPECT_EQ(rows.at("straggling rank").second, "computes 8 % longer than the others of its stage");
}

}  // namespace
}  // namespace frugal::harness
