// Numbers that a person reads of records, worked out by hand from the records' raw values, which
// all differ.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/calibrate/prediction.h"
#include "harness/compare/quantity.h"
#include "harness/place/gpu_state.h"
#include "harness/record/google_benchmark.h"
#include "harness/report/commands/import_report.h"
#include "harness/report/commands/rerun_report.h"
#include "harness/report/commands/work_report.h"
#include "harness/report/document/evidence_json.h"
#include "harness/report/document/markdown_report.h"
#include "harness/report/document/report_document.h"
#include "harness/report/measurement.h"
#include "harness/report/record_table.h"
#include "harness/report/verdicts.h"
#include "harness/settings/models.h"
#include "tests/harness/support.h"
#include "tests/harness/values_at.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using testing::full_record;
using testing::gibi;
using testing::mebi;
using testing::values_at;

size_t number_of(std::string_view operation) {
  return static_cast<size_t>(std::ranges::find(DeviceWork::names, operation) -
                             DeviceWork::names.begin());
}

/// A record whose numbers all differ, so that none can stand for another.
Record distinct_record() {
  Record r = full_record();
  r.on = "cuda";
  r.config.data_parallel = 2;
  r.metrics = {{"step_time", {"s", {0.5, 0.25, 4, 1, 2}}}};
  r.memory =
      Memory{{},
             BytesPerKind{1 << 10, 2 * mebi, 3 * mebi, 4 * mebi, 5 * mebi, 6 * mebi, 7 * mebi},
             11 * mebi,
             5 * gibi,
             13 * mebi};
  r.flops = Flops{1.25e15, "eq", 1.5e15, "executed", 1.75e15};
  r.utilization = Utilization{1e15, 8e14, {0.25, ""}, {0.3125, ""}, {0.3, ""}, {0.375, ""}};
  r.utilization->at_clock = {7.8e14, {0.3205, ""}, {0.3846, ""}};
  StepWork& work = *r.work;
  work.done.operations = {};
  work.done.operations[number_of("gemm")] = {7, {3e12, 5e9}};
  work.done.operations[number_of("fill")] = {11, {0, 7e9}};
  work.done.calls = {13, 17, 19, 23};
  r.held_out = {{2, 2.75}, {4, 2.625}};
  r.options["held_out_bytes_evaluated"] = "29";
  r.ranks.emplace();
  r.ranks->ranks = {
      {0, {}, {0, 0, 0.125, 0, 9}}, {0, {}, {8, 0, 0.5, 0, 0}}, {0, {}, {0, 0, 0.25, 7, 0}}};
  r.ranks->skew = {0, 0.25, 0.375, 0.5, 1};
  r.ranks->straggler = RankStatistics::Straggler{1, 0.08};
  r.environment = R"({"ranks": [{"host": "a"}, {"host": "b"}, {"host": "c"}], "build": {}})";
  return r;
}

/// Need of the fullest of 3 stages, and of its host.
Needed needed() {
  Needed needed{.on = "virtual:x", .capacity = 17 * gibi, .host_capacity = 19 * gibi};
  needed.memory.peak_total = 23 * gibi;
  needed.memory.host_peak = 29 * gibi;
  needed.memory.stages.resize(3);
  needed.memory.stages[1] = {{2 * gibi, 0, 0, 5 * gibi, 0, 0, 0}, 23 * gibi};
  return needed;
}

/// t 2 x d 2 ranks, 3 x 5 x 2 sequences of 8 tokens, a second a step: 4 / 240 · 1e9 / 3600 hours.
/// Parameters by hand: (32 + 8) 16 of the tables, a layer's 12 · 16² + 13 · 16, and 2 · 16 of the
/// last norm.
TEST(PrintedValues, OfAMeasurement) {
  EXPECT_EQ(measurement_table(distinct_record()).csv(), R"csv(quantity,value,unit
parameters,"3,952",
model,tiny,"1 layers, hidden size 16, 2 heads, sequence length 8, vocabulary 32"
objective,masked-token,losses are means over the positions that were chosen
source,measured,cuda: a processor
scale,1/4,
status,ok,
step_time,1,"s, median of 5"
cost,4630,device-hours per billion tokens
first loss,3.5,nats
last loss,2.5,nats
held-out loss,2.625,"nats, mean of those hidden of 29 bytes"
peak parameter memory of a rank,1,KiB
peak gradient memory of a rank,2,MiB
peak optimizer memory of a rank,3,MiB
peak activation memory of a rank,4,MiB
peak statistics memory of a rank,5,MiB
peak workspace memory of a rank,6,MiB
peak communication memory of a rank,7,MiB
peak memory of a rank,11,MiB
memory reserved by its device,5,GiB
host memory of a rank,13,MiB
waiting of the ranks in a step,0.125 to 0.5,"s, median of the rank that waits least and of the one that waits most"
skew between ranks,0.375,"s, median of how much longer one computes than another of its stage"
straggling rank,1 on b,computes 8 % longer than the others of its stage
SM clock of GPU 0,"1400 [1290, 1570]","MHz, mean and range of 9 looks"
power of GPU 0,unknown,W
temperature of GPU 0,unknown,°C
GPU 0 held back by,power cap 75 %,part of the looks
operations of a rank's step,18,
bytes that they move,11.176,GiB
least bytes of the step,150,B
kernel launches of the step,13,
waits of the host in the step,23,
model FLOPs,1.25e+15,eq
hardware FLOPs,1.5e+15,executed
"MFU, data-sheet peak",25,%
"HFU, data-sheet peak",30,%
"MFU, measured peak (best median GEMM)",31.25,%
"HFU, measured peak (best median GEMM)",37.5,%
"MFU, data-sheet peak at the mean clock",32.05,%
"HFU, data-sheet peak at the mean clock",38.46,%
)csv");
}

/// Four ranks of the 8 that a node has, which has 2 TiB.
TEST(PrintedValues, OfMemoryThatIsMissing) {
  Record r = distinct_record();
  r.on = "virtual:h100-dgx";
  r.source = Source::simulated;
  r.status = Status::oom;
  r.memory.reset();
  r.needed = needed();
  const std::string text = measurement_table(r).csv();
  EXPECT_NE(text.find(R"(needed memory of a rank,23,"GiB, of 17 GiB"
of it parameter,2,GiB
of it activation,5,GiB
host memory of a rank,29,GiB; 116 GiB of the 2 TiB of a node with 4 ranks
)"),
            std::string::npos)
      << text;
  EXPECT_EQ(
      comparison_table({{"case"}}, {{"a"}, {"b"}}, {distinct_record(), r}).csv(),
      R"(case,parameters,source,"step time, s",peak memory of a rank,host memory of a rank,"MFU, % of data sheet","HFU, % of data sheet","MFU, % of measured peak","HFU, % of measured peak",status
a,"3,952","measured, cuda","1, 5 steps",11 MiB,13 MiB,25,30,31.25,37.5,ok
b,"3,952","virtual, virtual:h100-dgx","1, 5 steps",23 GiB needed,29 GiB needed,25,30,31.25,37.5,"oom: needs 23 GiB of 17 GiB, and 29 GiB of 19 GiB on the host"
)");
}

TEST(PrintedValues, OfParameters) {
  const auto text = [](const char* model) { return parameters_line(find_model(model)); };
  EXPECT_EQ(text("gpt2-124m"), "gpt2-124m: 124.5 million parameters (124,475,904)\n");
  // 12 L h² + 13 L h, tables of (v + s) h and the last norm: equation 2 of the scaling paper.
  EXPECT_EQ(text("1T"), "1T: 1.008 trillion parameters (1,008,038,758,400)\n");
}

/// Exports the second stage, which is the fullest.
TEST(PrintedValues, OfExportedNeeds) {
  Record r = full_record();
  r.needed = needed();
  const Table table = record_rows({r});
  const auto row = std::ranges::find(table.rows, "needed_memory_at_peak_activation",
                                     [](const auto& one) { return one[11]; });
  ASSERT_NE(row, table.rows.end());
  EXPECT_EQ(row->at(14), "5368709120");
}

TEST(PrintedValues, OfAStepsWork) {
  const StepWork work = *distinct_record().work;
  EXPECT_EQ(operations_table(work).csv(), "operation,count,GB,TFLOP\nfill,11,7,0\ngemm,7,5,3\n");
  EXPECT_EQ(
      to_json(work, "cuda").dump(),
      R"({"bytes":12000000000,"calls":{"copies":19,"launches":13,"library_calls":17,"synchronisations":23},)"
      R"("least":{"gradients":20,"inputs":50,"kept":40,"optimizer":30,"total":150,"weights":10},)"
      R"("operations":{"fill":{"bytes":7000000000,"count":11,"flops":0},)"
      R"("gemm":{"bytes":5000000000,"count":7,"flops":3000000000000}},"stage":1,"unit":"bytes"})");
}

TEST(PrintedValues, OfARecord) {
  Record r = distinct_record();
  r.memory->stages.resize(1);
  r.memory->stages[0] = {{41, 42, 43, 44, 45, 46, 47},
                         48,
                         {51, 52, 53, 54, 55, 56, 57},
                         58,
                         {61, 62, 63, 64, 65, 66, 67}};
  r.needed = needed();
  EXPECT_EQ(
      values_at(
          to_json(r),
          "metrics/step_time/median memory/peak_total memory/host_peak memory/reserved "
          "memory/peak/optimizer "
          "memory/stages/0/peak memory/stages/0/peak_in_layers memory/stages/0/at_peak/gradient "
          "memory/stages/0/peak_per_kind/gradient memory/stages/0/held/gradient needed/capacity "
          "needed/host_capacity needed/memory/host_peak flops/model/value flops/hardware/value "
          "flops/hardware_as_printed/value utilization/peak_flops utilization/mfu/data_sheet/value "
          "utilization/mfu/measured/value utilization/hfu/data_sheet/value "
          "utilization/hfu/measured/value utilization/mfu/at_mean_clock/value "
          "utilization/hfu/at_mean_clock/value gpu_load/gpus/0/sm_clock_mhz "
          "ranks/skew ranks/straggler held_out/1"),
      R"(1.0 11534336 13631488 5368709120 3145728 48 58 42 52 62 18253611008 20401094656 31138512896 1.25e+15 1.5e+15 )"
      R"(1.75e+15 {"at_mean_clock":780000000000000.0,"data_sheet":1e+15,"measured":800000000000000.0} )"
      R"(0.25 0.3125 0.3 0.375 0.3205 0.3846 {"high":1570.0,"low":1290.0,"mean":1400.0} )"
      R"({"largest":1.0,"lower_quartile":0.25,"median":0.375,"smallest":0.0,"upper_quartile":0.5} )"
      R"({"rank":1,"slower":0.08} {"loss":2.625,"step":4})");
  EXPECT_EQ(to_json(record_from_json(to_json(r), "test")), to_json(r));
}

/// Answers for 2 x 2 ranks, whose fullest needs 11 MiB.
TEST(PrintedValues, OfAnImportsAnswer) {
  Imported imported;
  imported.missing = {{"--kept-longer 4", "a MiB more"}, {"--other", "time"}};
  imported.unknown = {{"--frobnicate", "not known"}};
  const ImportReport report{.imported = imported,
                            .capacity = 17 * gibi,
                            .command = "frugal measure",
                            .not_run = "",
                            .records = {distinct_record()}};
  const std::string said = report.in("markdown");
  EXPECT_EQ(said.substr(0, said.find("frugal measure")), R"(tiny: 3,952 parameters
It fits: a rank needs 11 MiB of 17 GiB on cuda, 4 ranks, for which its allocator reserves 5 GiB.
A step takes 1 s, MFU 25 %.
Without --kept-longer 4, --other, --frobnicate: what each would change stands below.

)");
}

/// The names are those under which two runs are compared.
TEST(PrintedValues, OfTheQuantitiesOfARecord) {
  const Record r = distinct_record();
  CasePair pair;
  pair.base.runs = pair.candidate.runs = {&r};
  std::string said;
  for (const ObservedQuantity& q : quantities_of(pair))
    said += fmt::format("{}: {} {}\n", q.name, fmt::join(q.candidate[0], " "), q.unit);
  EXPECT_EQ(said, R"(step_time: 0.5 0.25 4 1 2 s
peak memory: 11534336 bytes
peak parameter memory: 1024 bytes
peak gradient memory: 2097152 bytes
peak optimizer memory: 3145728 bytes
peak activation memory: 4194304 bytes
peak statistics memory: 5242880 bytes
peak workspace memory: 6291456 bytes
peak communication memory: 7340032 bytes
reserved memory: 5368709120 bytes
peak host memory: 13631488 bytes
model FLOPs: 1250000000000000 FLOP
hardware FLOPs: 1500000000000000 FLOP
losses: 3.5 2.5 nats
held-out losses: 2.75 2.625 nats
)");
}

/// 77 bytes become 88, and of a measured run's times nothing is judged.
TEST(PrintedValues, OfARecordRunAgain) {
  Record recorded = full_record(), now = recorded;
  recorded.source = now.source = Source::simulated;
  now.memory->peak_total = 88;
  size_t judged = 0;
  for (const char* key : {"reason", "metrics", "findings", "memory", "flops", "work", "losses",
                          "held_out", "utilization"})
    judged += to_json(recorded)[key].flatten().size();
  std::vector<RerunRecord> all{beside(7, recorded, now)};
  EXPECT_EQ(all[0].equal, judged - 1);
  all[0].equal = 5;
  all.push_back({.number = 8, .recorded = &recorded, .reason = "gone"});
  recorded.source = now.source = Source::measured;
  now.metrics["forward_time"].samples = {0.5};
  now.memory = recorded.memory;
  all.push_back(beside(9, recorded, now));
  all.back().equal = 11;
  for (int i = 0; i < 15; ++i)
    all.back().values.push_back({.name = "v", .recorded = "1", .now = "2"});
  const Table table = rerun_table(all);
  const Table begin{table.columns, {table.rows.begin(), table.rows.begin() + 5}};
  EXPECT_EQ(begin.csv(), R"(record,case,on,value,recorded,now,verdict
7,paper/table a case,cpu,5 of 6,,,equal
7,paper/table a case,cpu,memory.peak_total,77,88,differs by +14.3 %
8,paper/table a case,cpu,,,,not run
9,paper/table a case,cpu,11 of 26,,,equal
9,paper/table a case,cpu,"forward_time, s",0.2,0.5,not judged
)");
  EXPECT_EQ(table.rows.size(), 5U + 12 + 1);
  EXPECT_EQ(table.rows.back()[3], "3 others");
  EXPECT_EQ(
      values_at(to_json(all)["records"], "0 1/record 1/reason 2/equal"),
      R"({"artifact":"paper/table","case":"a case","equal":5,"on":"cpu","reason":"","record":7,"values":)"
      R"([{"change":"+14.3 %","now":"88","recorded":"77","value":"memory.peak_total","verdict":"differs"}],)"
      R"("verdict":"differs"} 8 "gone" 11)");
}

TEST(PrintedValues, OfGoogleBenchmark) {
  Record r = full_record();
  r.options["repetitions"] = "3";
  r.metrics = {{"time", {"s", {5, 2, 3}}},
               {"bytes_per_second", {"", {7, 11, 9}}},
               {"items_per_second", {"", {13}}}};
  EXPECT_EQ(google_benchmark_table({r}).csv(),
            "case,\"time, s\",bytes/s,1/s,repetitions\na case,3,9,13,3\n");
}

TEST(PrintedValues, OfAGpusState) {
  const GpuState state{{1, 2, 3}, {4, 5, 6}, 7,  8,  9,  10, {}, true, {}, {},
                       11,        12,        13, 14, 15, 16, 17, 18,   19};
  EXPECT_EQ(
      to_json(state).dump(),
      R"({"active_nvlinks":18,"corrected_errors":11,"default_power_cap_watts":9.0,"ecc":true,"memory_clock_mhz":)"
      R"({"application":5,"current":4,"max":6},"mig":null,"numa_node":19,"nvlinks":17,"pcie":{"generation":13,)"
      R"("max_generation":15,"max_width":16,"width":14},"persistence":null,"power_cap_watts":8.0,"power_watts":7.0,)"
      R"("sm_clock_mhz":{"application":2,"current":1,"max":3},"temperature_celsius":10,"throttle_reasons":null,)"
      R"("uncorrected_errors":12})");
}

TEST(PrintedValues, OfAPrediction) {
  Record lost = distinct_record();
  lost.metrics.clear();
  lost.memory.reset();
  lost.status = Status::oom;
  lost.reason = "full";
  Record r = distinct_record();
  r.memory->peak_total = 3 * gibi / 2;
  EXPECT_EQ(prediction_table({r, lost}).csv(), R"(case,quantity,predicted,unit
paper/table a case,step_time,1,s
paper/table a case,peak_memory,1.5,GiB
paper/table a case,oom,,full
)");
}

class Fixed : public Artifact {
 public:
  std::string id() const override { return "paper/table"; }
  std::string title() const override { return "A table"; }
  std::vector<Case> cases(const Selection&) const override { return {}; }
  /// The value stands in the second line of the second table, 1/4 of the size.
  std::vector<Cell> cells(const Records&) const override {
    std::vector<Cell> cells(3);
    for (size_t i = 0; i < 3; ++i) {
      cells[i].unit = "ms";
      cells[i].paper = 8;
      cells[i].value = 9;
      cells[i].interval = {7, 11};
      cells[i].artifact = id();
      cells[i].row = i == 2 ? "last" : "first";
      cells[i].column = "c";
      cells[i].read = "digitized";
      cells[i].on = "cuda";
      cells[i].source = Source::measured;
      cells[i].samples = 13;
      cells[i].scale = i == 0 ? 1 : 4;
      cells[i].tolerance = 2;
      cells[i].no_effect = 5;
      cells[i].cases = {"a case"};
    }
    cells[0].interval = {7, 9.5};
    cells[2].value = 10;
    return cells;
  }
  std::vector<Claim> claims(const Records& records) const override {
    Claim claim;
    static_cast<Comparison&>(claim) = cells(records)[2];
    claim.id = "claim";
    claim.statement = "It is.";
    claim.relation = Comparison::Relation::at_least;
    claim.threads = 3;
    return {claim};
  }
};

TEST(PrintedValues, OfAReproduction) {
  Reproduction r;
  r.add(Fixed(), {});
  EXPECT_EQ(cell_tables(r)[1].table.csv(),
            R"(row,column,unit,"paper, full size",measured cuda at 1/4,error,verdict
first,c,ms,8 (digitized),"9 [7, 11]",+12.50 %,undecided
last,c,ms,8 (digitized),"10 [7, 11]",+25.00 %,undecided
)");
  EXPECT_EQ(claim_table(r).csv(), R"(claim,stated,tolerance,source,value,verdict,statement,why
claim,≥ 8 ms,± 2,"measured cuda, 3 threads at 1/4","10 [7, 11]",reproduced,It is.,
)");
  EXPECT_EQ(
      verdict_table(r).csv(),
      R"(,source,reproduced,not reproduced,undecided,calibrated,not comparable,not measurable here,without verdict
claims,"measured cuda, 3 threads at 1/4",1,0,0,0,0,0,0
cells,measured cuda,1,0,0,0,0,0,0
cells,measured cuda at 1/4,0,0,2,0,0,0,0
)");
  EXPECT_EQ(to_csv(r).substr(to_csv(r).rfind("paper/")),
            "paper/table,last,c,ms,8.0,false,digitized,,10.0,7.0,11.0,13,measured,cuda,,1/"
            "4,25.0,,false,ok,undecided,"
            "2.0,5.0,,,\n");
  EXPECT_EQ(
      values_at(to_json(r), "cells/2 claims/0"),
      R"({"artifact":"paper/table","column":"c","error_percent":25.0,"error_points":null,"fitted":false,"formula":null,)"
      R"("interval":[7.0,11.0],"justification":"","no_effect":5.0,"note":"","of_another_run":false,"on":"cuda",)"
      R"("paper":8.0,"paper_oom":false,"program":"","read":"digitized","reason":"","relation":"about","row":"last",)"
      R"("samples":13,"scale":"1/4","source":"measured","status":"ok","threads":null,"tolerance":2.0,"unit":"ms",)"
      R"("value":10.0,"verdict":"undecided"} )"
      R"({"expected":false,"fitted":false,"formula":null,"id":"claim","interval":[7.0,11.0],"justification":"",)"
      R"("no_effect":5.0,"note":"","on":"cuda","paper":8.0,"program":"","reason":"","relation":"at least",)"
      R"("samples":13,"scale":"1/4","source":"measured","statement":"It is.","threads":3,"tolerance":2.0,"unit":"ms",)"
      R"("value":10.0,"verdict":"reproduced"})");
}

/// The third record is the last of its case in the setting, and in the second environment of two.
TEST(PrintedValues, OfAReport) {
  const Fixed artifact;
  ReportedRecords records;
  for (const char* build : {"0", "1", "1"}) {
    Record r = distinct_record();
    r.options.erase("threads");
    r.environment = fmt::format(R"({{"load_average": [{}], "build": {{"commit": "{}"}}}})",
                                records.files.size(), build);
    records.records.add(r);
    records.files.push_back("f");
    records.lines.push_back(10 + 7 * static_cast<int>(records.files.size()));
  }
  Reproduction numbers;
  numbers.add(artifact, records.records);
  const std::string page = markdown_report(records, numbers, {}, {});
  EXPECT_NE(page.find("| paper/table a case | cuda | 1/4 | ok | 2022-05-10T12:00:00.000Z | 1 | "
                      "frugal reproduce paper/table |\n"),
            std::string::npos)
      << page;
  json all = report_document(records, {{&artifact, numbers}}, {}, {});
  EXPECT_EQ(
      values_at(all,
                "artifacts/0/tables/1/places cells/2/records environments/1/build records/2/line "
                "records/2/environment claims/0/stated claims/0/ours records/2/quantities"),
      R"([[0,4,1],[1,4,2]] [2] {"commit":"1"} 31 1 "≥ 8 ms" "10 [7, 11]" [["step_time","1","s, 5 samples"],)"
      R"(["peak memory of a rank","11","MiB"],["host memory of a rank","13","MiB"],["fastest","t2 w4",""]])");
}

}  // namespace
}  // namespace frugal::harness
