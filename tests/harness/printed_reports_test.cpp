// What commands print and write of results that are made up. Each number was worked out by hand
// from those that are put in, which all differ.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/report/commands/attribution_report.h"
#include "harness/report/commands/benchmark_report.h"
#include "harness/report/commands/calibration_report.h"
#include "harness/report/commands/comparison_report.h"
#include "harness/report/commands/longest_report.h"
#include "harness/report/commands/peak_report.h"
#include "harness/report/commands/plan_report.h"
#include "harness/report/commands/recompute_report.h"
#include "harness/report/commands/rerun_report.h"
#include "harness/report/commands/validation_report.h"
#include "harness/report/commands/work_report.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using testing::tiny;

constexpr int64_t mebi = 1 << 20, gibi = 1 << 30;

/// Text with a bar between the columns of its tables, and without the lines below their headers.
std::string barred(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.find_first_not_of("- ") == std::string::npos) continue;
    for (size_t at = 0; (at = line.find("  ", at)) != std::string::npos; at += 1)
      line.replace(at, line.find_first_not_of(' ', at) - at, "|");
    out += line + "\n";
  }
  return out;
}

TEST(PrintedReports, OfAttribution) {
  auto known = known_behaviours("float32-norms+separate-activation+causal-masks");
  known[0].status = BehaviourStatus::counted;
  known[1].status = BehaviourStatus::documented;
  const Attribution one{"paper/table",
                        "row",
                        "column",
                        "ms",
                        20.25,
                        11,
                        17,
                        {{known[0], 4, 3.5, -2}, {known[1], 2, {}, 0}, {known[2], 0, 0, 0}}};
  EXPECT_EQ(barred(to_text({one})), R"(paper/table: row, column (ms)

behaviour|known as|adds|alone|as the last
frugal|11
float32-norms|counted|+4|+3.5|-2
separate-activation|documented|+2|0
the paper's program|17
not explained|+3.25
the paper|20.25
)");
  const json cell = to_json({one}, "c")["cells"][0];
  EXPECT_EQ(cell["terms"][0], json::parse(R"({"behaviour": "float32-norms", "status": "counted",
      "added": 4.0, "alone": 3.5, "as_the_last": -2.0})"));
  EXPECT_TRUE(cell["terms"][1]["alone"].is_null());
  EXPECT_EQ((std::array{cell["paper"], cell["frugal"], cell["program"], cell["unexplained"]}),
            (std::array<json, 4>{20.25, 11., 17., 3.25}));
}

Record timed(const char* size, const char* by, double work, std::vector<double> seconds) {
  Record record;
  record.source = Source::measured;
  record.on = "cpu";
  record.rounds = "r";
  record.environment = "{}";
  record.options = {{"size", size}, {"by", by}};
  record.metrics = {{"time", {"s", std::move(seconds)}}, {"work", {"FLOP", {work}}}};
  record.findings = {{"how", std::string(by) + size}};
  return record;
}

/// Of 3 rounds: a takes 2, 0.5 and 4 times as long as b, whose rate, 12 in 2 s, is above that of c,
/// 12 in 8.
TEST(PrintedReports, OfABenchmark) {
  using Shows = ResultColumn::Shows;
  const Benchmark benchmark{.name = "b",
                            .title = "t",
                            .axes = {{"size", {"3", "5"}}, {"by", {"a", "b", "c"}}},
                            .by_turns = {"by"},
                            .reference = Reference{"by", {"b", "c"}},
                            .columns = {{"ms", "time", Shows::value, 1e-3},
                                        {"rate", "time", Shows::rate, 4},
                                        {"ratio", "time", Shows::ratio},
                                        {"speed", "time", Shows::speed},
                                        {"how", "how", Shows::finding}}};
  Record skipped = timed("5", "c", 1, {1});
  skipped.status = Status::skipped;
  skipped.reason = "why";
  skipped.rounds = "";
  const std::vector<Record> records{
      timed("3", "a", 6, {4, 2, 1}),   timed("3", "b", 12, {2, 4, 0.25}),
      timed("3", "c", 12, {8, 8, 8}),  timed("5", "a", 6, {4, 2, 1}),
      timed("5", "b", 48, {16, 1, 8}), skipped};
  EXPECT_EQ(benchmark_table(benchmark, records).csv(),
            R"(size,by,source,ms,rate,ratio,speed,how,rounds,status
3,a,"measured, cpu",2000,0.75,2,0.25,a3,3,ok
3,b,"measured, cpu",2000,1.5,,,b3,3,ok
3,c,"measured, cpu",8000,0.375,,,c3,3,ok
5,a,"measured, cpu",2000,0.75,0.25,0.5,a5,3,ok
5,b,"measured, cpu",8000,1.5,,,b5,3,ok
5,c,"measured, cpu",,,,,,,skipped: why
)");
}

Cell cell_of(const char* row, const char* unit, double paper, std::optional<double> value) {
  Cell cell;
  cell.artifact = "paper/fit";
  cell.row = row;
  cell.column = "col";
  cell.unit = unit;
  cell.read = "printed";
  cell.paper = paper;
  cell.value = value;
  if (!value) cell.reason = "none";
  return cell;
}

CalibrationReport calibration() {
  CalibrationReport report;
  report.machine = "box";
  report.description = "a box";
  report.command = "c";
  report.refit = {{{"device.x", "1", 0.53, 0.5, 0.011}, {"network.y", "B/s", 3, 4, 2}},
                  {{cell_of("a", "ms", 8, 10), cell_of("a", "ms", 8, 9)},
                   {cell_of("b", "%", 5, 4), cell_of("b", "%", 5, 5)}},
                  17.5,
                  8.25};
  report.held_out = {{"paper/held",
                      {{cell_of("d", "s", 4, 5), true},
                       {cell_of("e", "%", 30, 33), false},
                       {cell_of("f", "s", 6, {}), false}},
                      {{3, 2.5, 7.25}, {2, 1.5, 3}},
                      {{1, 0.75, 1.25}, {}}}};
  const auto on = [](double a, double b) {
    return std::vector<ArtifactOnMachine>{{{{2, a, b}, {}}, {{"a", a}, {"b", b}}}};
  };
  report.sensitivity = {{"paper/one"},
                        {"paper/none"},
                        on(2, 5),
                        {{{"device.x", 0.5, "1", "sheet", false, 1, {}},
                          true,
                          {0.45, "", on(2.5, 5.625)},
                          {0.55, "", on(1.75, 5)}},
                         {{"network.y", 3, "B/s", "page", false, 9, {}},
                          false,
                          {2.7, "", on(2, 5)},
                          {3.3, "too much", {}}}}};
  const auto published = [](std::map<std::string, double> values, const char* source, double n) {
    return PublishedMachine{std::move(values),
                            source,
                            {{"device.x", n}},
                            n + 0.25,
                            {{"paper/held", {{2, n + 0.5, n + 0.75}, {}}, 2 * n - 5}}};
  };
  report.published = {published({}, "", 1),
                      {published({{"network.y", 2.5}}, "a page", 2)},
                      published({{"network.y", 2.5}}, "", 3),
                      published({}, "", 4)};
  return report;
}

TEST(PrintedReports, OfACalibration) {
  EXPECT_EQ(barred(calibration().text()), R"(box: a box

Fitted again

parameter|unit|file|refitted|difference|flat within
device.x|1|0.53|0.5|+6.00 % (differs)|± 2.20 %
network.y|B/s|3|4|-25.00 %|± 50.00 %

artifact|row|column|unit|paper|file|error|refitted|error
paper/fit|a|col|ms|8|10|+25.00 %|9|+12.50 %
paper/fit|b|col|%|5|4|-1.00 pt|5|0 pt

rms of the errors: 17.500 % with the file's values, 8.250 % refitted

Held out

artifact|row|column|unit|paper|virtual|error|remark
paper/held|d|col|s|4|5|+25.00 %|a fitted cell's run
paper/held|e|col|%|30|33|+3.00 pt
paper/held|f|col|s|6|none

artifact|of|cells|mean |error||worst|unseen cells|mean |error||worst
paper/held|times and throughputs|3|2.50 %|7.25 %|1|0.75 %|1.25 %
paper/held|percentages|2|1.50 pt|3.00 pt|0

Mean time with one parameter changed

parameter|value|unit|source|one -10 %|one +10 %
device.x|0.5|1|fitted|+18.75 %|-6.25 %
network.y|3|B/s|other|0 %|-

- left out: paper/none: its cases take no time
- left out: network.y +10 %: too much

Other published values, one at a time, and all that shorten or lengthen held

machine|fitted, rms|held longer|held mean |error||held worst
the file's values|1.25 %|-3.00 %|1.50 %|1.75 %
network.y = 2.5|2.25 %|-1.00 %|2.50 %|2.75 %
the shortest times|3.25 %|+1.00 %|3.50 %|3.75 %
the longest times|4.25 %|+3.00 %|4.50 %|4.75 %
)");
  const json all = calibration().json();
  EXPECT_EQ(
      all["refit"]["parameters"][0],
      json::parse(R"({"key": "device.x", "unit": "1", "file": 0.53, "refitted": 0.5, "flat": 0.011,
                            "differs": true})"));
  EXPECT_EQ(all["refit"]["cells"][0],
            json::parse(R"({"artifact": "paper/fit", "row": "a", "column": "col", "unit": "ms",
      "paper": 8.0, "read": "printed", "value": 10.0, "error_percent": 25.0, "error_points": null, "status": "ok",
      "reason": "", "refitted": 9.0, "refitted_error_percent": 12.5})"));
  EXPECT_EQ(all["refit"]["rms_percent"], json::parse(R"({"file": 17.5, "refitted": 8.25})"));
  EXPECT_EQ(all["held_out"][0]["errors"],
            json::parse(R"({"percent": {"cells": 3, "mean": 2.5, "worst": 7.25},
      "points": {"cells": 2, "mean": 1.5, "worst": 3.0}})"));
  EXPECT_EQ(all["held_out"][0]["errors_unseen"], json::parse(R"({"points": null,
      "percent": {"cells": 1, "mean": 0.75, "worst": 1.25}})"));
  EXPECT_EQ(all["held_out"][0]["cells"][1]["error_points"], 3.0);
  EXPECT_EQ(all["held_out"][0]["cells"][0]["seen"], true);
  const json& x = all["sensitivity"]["parameters"][0];
  EXPECT_EQ(x["effect_percent"], 18.75);
  EXPECT_EQ((std::array{x["value"], x["less"]["value"], x["more"]["value"]}),
            (std::array<json, 3>{0.5, 0.45, 0.55}));
  EXPECT_EQ(x["less"]["artifacts"][0],
            json::parse(R"({"artifact": "paper/one", "time_percent": 18.75,
      "errors": {"percent": {"cells": 2, "mean": 2.5, "worst": 5.625}, "points": null}})"));
  EXPECT_EQ(x["more"]["artifacts"][0]["time_percent"], -6.25);
  EXPECT_EQ(all["published"][1],
            json::parse(R"({"machine": "network.y = 2.5", "values": {"network.y": 2.5},
      "source": "a page", "fitted": {"device.x": 2.0}, "rms_percent": 2.25, "held_out": [{"artifact": "paper/held",
      "longer_percent": -1.0, "errors": {"percent": {"cells": 2, "mean": 2.5, "worst": 2.75}, "points": null}}]})"));
}

TEST(PrintedReports, OfAComparison) {
  ComparisonReport report;
  report.base = "old";
  report.candidate = "new";
  report.options = {0.03, 0.07};
  report.across = {"type"};
  report.differences = {{"type", "f32", "bf16"}};
  report.quantities = {
      {"case 64", "threads 2", "time", "s", 0.5, 0.25, Estimate{0.5, Interval{0.4375, 0.625}, 7},
       0.03, 7, 7, true, Change::faster, "n"},
      {"case 64",
       "",
       "peak memory",
       "bytes",
       3. * mebi,
       5. * mebi,
       Estimate{1.25},
       {},
       2,
       1,
       false,
       Change::more},
      {"case 65", "", "status", "", {}, {}, {}, {}, 3, 4, false, Change::different, "ok, and oom"}};
  report.only_base = {"gone"};
  report.only_candidate = {"come"};
  report.left_out = {"1 run"};
  report.fail_on = {Change::more};
  EXPECT_EQ(change_table(report).csv(),
            R"(case,quantity,base,candidate,candidate / base,p,processes,change,note
case 64 (threads 2),time,0.5 s,0.25 s,"0.5 [0.4375, 0.625]",0.03,7 by turns,faster,n
case 64,peak memory,3 MiB,5 MiB,1.25,,"2, 1",more,
case 65,status,,,,,"3, 4",different,"ok, and oom"
)");
  EXPECT_EQ(
      change_remarks(report),
      (std::vector<std::string>{"differs: type is f32 in the base and bf16 in the candidate",
                                "not compared: gone is in the base only",
                                "not compared: come is in the candidate only", "left out: 1 run",
                                "Of 3 quantities: 1 faster, 1 more, 1 different."}));
  const json all = to_json(report);
  EXPECT_EQ(
      all["quantities"][0],
      json::parse(R"({"case": "case 64", "which": "threads 2", "quantity": "time", "unit": "s",
      "base": 0.5, "candidate": 0.25, "ratio": 0.5, "interval": {"low": 0.4375, "high": 0.625}, "p": 0.03,
      "base_processes": 7, "candidate_processes": 7, "by_turns": true, "change": "faster", "note": "n"})"));
  EXPECT_EQ(all["quantities"][1]["candidate_processes"], 1);
  EXPECT_EQ((std::array{all["margin"], all["level"]}), (std::array<json, 2>{0.03, 0.07}));
  EXPECT_EQ((std::array{all["only_base"][0], all["only_candidate"][0], all["base"]}),
            (std::array<json, 3>{"gone", "come", "old"}));
  const std::vector<JUnitCase> cases = junit_cases(report);
  EXPECT_EQ(cases[0].details, "faster: 0.5 [0.4375, 0.625] times, p 0.03; n");
  EXPECT_EQ(cases[1].outcome, JUnitCase::Outcome::failed);
}

TEST(PrintedReports, OfTheLongestSequence) {
  LongestReport report;
  report.step = {tiny(), {}};
  report.on = "cpu";
  report.device = "a processor";
  report.memory = 3 * gibi;
  report.longest = {.tokens = 40, .granularity = 8, .refused = 64, .refused_because = "full"};
  Memory& memory = report.longest.memory;
  memory.peak_total = 17;
  memory.host_peak = 19 * mebi;
  memory.stages.resize(2);
  memory.stages[1] = {{2 * mebi, 0, 0, 5 * mebi, 0, 0, 0}, 7 * mebi};
  report.tried = {{40, true, "", 11 * mebi}, {48, false, "no room", 0}};
  EXPECT_EQ(report.table().csv(), R"(quantity,value,unit
parameters,"4,464",
model,tiny,
on,cpu,a processor
memory,3,GiB of each rank
longest sequence,40,tokens; the 64 multiples of 8 that are next longer do not fit
parameter at the peak,2,MiB
activation at the peak,5,MiB
peak,7,MiB
host memory of a rank,19,MiB
48 tokens,does not fit,full
"40 tokens, run",fits,peak 11 MiB
"48 tokens, run",does not fit,no room
)");
  const json all = report.json();
  EXPECT_EQ(
      (std::array{all["memory"], all["longest_sequence"], all["granularity"], all["peak"],
                  all["longer_lengths_refused"], all["host_peak"], all["at_peak"]["activation"]}),
      (std::array<json, 7>{3 * gibi, 40, 8, 7 * mebi, 64, 19 * mebi, 5 * mebi}));
  EXPECT_EQ(all["run"],
            json::parse(R"([{"tokens": 40, "fits": true, "peak": 11534336, "reason": ""},
      {"tokens": 48, "fits": false, "peak": null, "reason": "no room"}])"));
}

GemmRate rate_of(DType type, GemmShape shape, double value) {
  GemmRate rate;
  rate.type = type;
  rate.shape = shape;
  rate.value = value * 1e9;
  rate.interval = {(value - 1) * 1e9, (value + 2) * 1e9};
  rate.repetitions = 3;
  rate.seconds = {0.25, 0.5};
  return rate;
}

/// The best is neither the first nor the last.
Peaks peaks() {
  Peaks peaks;
  peaks.gemms = {{rate_of(DType::f32, {5, 7, 11}, 10), rate_of(DType::f32, {13, 13, 13}, 30),
                  rate_of(DType::f32, {17, 17, 17}, 20)},
                 {rate_of(DType::bf16, {19, 19, 19}, 50)}};
  static_cast<Rate&>(peaks.copy) = rate_of({}, {}, 60);
  peaks.copy.bytes = 6 * mebi;
  peaks.launch = {{3e-6, Interval{2e-6, 5e-6}, 10}, {7e-6, Interval{6e-6, 9e-6}, 11}};
  for (const auto& [name, mebibytes, value] :
       {std::tuple{"all-reduce", 2, 70.}, {"all-gather", 3, 90.}, {"reduce-scatter", 4, 80.}}) {
    CollectiveRate& rate = peaks.collectives.emplace_back();
    static_cast<Rate&>(rate) = rate_of({}, {}, value);
    rate.name = name;
    rate.ranks = 5;
    rate.bytes = mebibytes * mebi;
    rate.factor = 1.6;
  }
  return peaks;
}

TEST(PrintedReports, OfPeaks) {
  EXPECT_EQ(peak_table(peaks()).csv(), R"(what,size,median rate,interval,unit
gemm f32,5 x 7 x 11,10,"[9, 12]",GFLOP/s
gemm f32,13,30,"[29, 32]",GFLOP/s
gemm f32,17,20,"[19, 22]",GFLOP/s
measured peak f32,13,30,"[29, 32]",GFLOP/s
gemm bf16,19,50,"[49, 52]",GFLOP/s
measured peak bf16,19,50,"[49, 52]",GFLOP/s
copy,6 MiB,60,"[59, 62]",GB/s
"all-reduce, 5 ranks, bus",2048 KiB,70,"[69, 72]",GB/s
"all-gather, 5 ranks, bus",3072 KiB,90,"[89, 92]",GB/s
"reduce-scatter, 5 ranks, bus",4096 KiB,80,"[79, 82]",GB/s
small operation,,3,"[2, 5]",us
issuing one,,7,"[6, 9]",us
)");
  const auto target = make_target({.on = "cpu", .threads = 2});
  const json all = to_json(peaks(), *target);
  EXPECT_EQ(all["gemm"][0],
            json::parse(
                R"({"type": "f32", "size": null, "m": 5, "n": 7, "k": 11, "flops_per_second": 1e10,
      "interval": [9e9, 12e9], "repetitions": 3, "seconds": [0.25, 0.5]})"));
  EXPECT_EQ(all["measured_peak"]["f32"]["size"], 13);
  EXPECT_EQ(all["copy"],
            json::parse(R"({"bytes": 6291456, "bytes_per_second": 60e9, "interval": [59e9, 62e9],
      "repetitions": 3, "seconds": [0.25, 0.5]})"));
  EXPECT_EQ(all["launch"], json::parse(R"({"operations": 1000,
      "each": {"seconds": 3e-6, "interval": [2e-6, 5e-6], "samples": 10},
      "issue": {"seconds": 7e-6, "interval": [6e-6, 9e-6], "samples": 11}})"));
  EXPECT_EQ(all["collectives"][1],
            json::parse(R"({"collective": "all-gather", "ranks": 5, "bytes": 3145728, "factor": 1.6,
      "bus_bytes_per_second": 90e9, "interval": [89e9, 92e9], "repetitions": 3, "seconds": [0.25, 0.5]})"));
  const json machine = measured_machine(peaks(), *target, "m", "c")["measured"];
  EXPECT_EQ(machine["flops_f32"],
            json::parse(R"({"value": 30e9, "interval": [29e9, 32e9], "unit": "FLOP/s",
      "source": "best median of 3 matrix products, m x n x k 13 x 13 x 13"})"));
  EXPECT_EQ(machine["memory_bandwidth"]["source"],
            "copy of 3145728 bytes to as many, read and written");
  EXPECT_EQ((std::array{machine["memory_bandwidth"]["value"], machine["launch_overhead"]["value"],
                        machine["operation_time"]["value"]}),
            (std::array<json, 3>{60e9, 7e-6, 3e-6}));
  EXPECT_EQ(machine["link_bandwidth"],
            json::parse(R"({"value": 90e9, "interval": [89e9, 92e9], "unit": "B/s",
      "source": "bus bandwidth of all-gather of 3145728 bytes by 5 ranks"})"));
}

Candidate candidate(double seconds, int64_t missing, Shard shard, Recompute recompute) {
  Candidate one;
  one.run = tiny();
  one.run.tensor_parallel = 2;
  one.run.data_parallel = 3;
  one.run.pipeline_parallel = 5;
  one.run.micro_batch = 7;
  one.run.microbatches = 55;
  one.run.schedule = ScheduleKind::gpipe;
  one.run.shard = shard;
  one.run.recompute = recompute;
  // The first bound takes 1 s in any case, the others what is left in parts of 16, 8, 5, 3.
  one.prediction.seconds = seconds;
  one.prediction.parts = {1, (seconds - 1) / 2, (seconds - 1) / 4, (seconds - 1) * 5 / 32,
                          (seconds - 1) * 3 / 32};
  for (const auto& [memory, on_host] :
       {std::pair{3., 0.25}, {5.25, 1.}, {4., 0.5}, {2., 0.}, {1., 0.}})
    one.prediction.stages.push_back({.memory = static_cast<int64_t>(memory * gibi) + missing,
                                     .on_host = static_cast<int64_t>(on_host * gibi)});
  one.missing = missing;
  return one;
}

/// A sequence of tiny() is 6 s (12 h² + v h) + 12 s² h = 184320 FLOPs; a batch of 3 · 7 · 55 of
/// them 212889600, in 2.6 s 81.88 M of the 30 · 5.4 M a second that its devices have: 50.5 %.
/// Tokens are 1155 · 8. Of a node's 8 ranks most have 4 of the second stage, of 6 ranks, and 4 of
/// the third on the host: 6 GiB.
TEST(PrintedReports, OfAPlan) {
  PlanRequest request;
  request.run = tiny();
  request.machine = find_machine("h100-dgx", {{"device.flops_f32", 5.4e6}});
  request.machine.host_memory = 2048 * gibi;
  for (Machine::Parameter& parameter : request.machine.parameters)
    parameter.source = "a sheet of " + parameter.key;
  request.devices = 30;
  request.batch = 1155;
  request.memory = 21 * gibi / 4;
  request.schedules = {ScheduleKind::gpipe};
  request.shards = {Shard::none, Shard::optimizer};
  request.within = 1.5;
  Plan plan;
  plan.fitting = {candidate(2.6, 0, Shard::none, Recompute::none),
                  candidate(4.2, 0, Shard::optimizer, Recompute::none),
                  candidate(5.8, 0, Shard::none, Recompute::stage)};
  plan.too_large = {candidate(2, gibi / 2, Shard::none, Recompute::full)};
  plan.slower = 13;
  plan.hopeless = 19;
  plan.not_filling = 17;
  const PlanReport report{.request = request,
                          .plan = plan,
                          .executed = {{2.75, {11, 12, 13, 14, 15}, {21, 22, 23, 24, 25}}},
                          .errors = KnownErrors{{3, 0.02, 0.05}, {7, 0.03, 0.7}, "shape", "there"},
                          .command = "frugal measure",
                          .rows = 2};
  const std::string text = barred(report.text());
  EXPECT_NE(text.find("tiny on 30 devices of h100-dgx, batch 1155, schedule gpipe: the first 2 of "
                      "3 configurations that fit and take at most 1.5 times"),
            std::string::npos);
  EXPECT_EQ(
      text.substr(text.find("predictions of")),
      R"(predictions of 3 steps of whole models were off by 2 % (median), 5 % at most; of the ratio of two, 3 % (median), 70 % in nine of ten of 7 pairs, which differ in shape (there)
t|w|d|b|g|recompute|shard|sequences/s|MFU, %|device-hours per 1e9 tokens|compute|messages|all-reduce|optimizer|bubble|GiB of 5.25|host GiB of a rank|of a node, of 2048.00|executed|like the first
2|3|5|7|11|none|none|444.23|50.5|2345|38 %|31 %|15 %|10 %|6 %|5.25|1.00|6.00|420.00
2|3|5|7|11|none|optimizer|275.00|31.3|3788|24 %|38 %|19 %|12 %|7 %|5.25|1.00|6.00|~
t: tensor-parallel ranks; w: replicas; d: pipeline stages; b: sequences of a microbatch; g: times d microbatches in each pipeline; shard: what replicas divide
~: cannot be told apart from the first; 1 of all 3 that are kept cannot
faster, but a little too large:
t|w|d|b|g|recompute|sequences/s|MFU, %|device-hours per 1e9 tokens|compute|messages|all-reduce|optimizer|bubble|GiB of 5.25|host GiB of a rank|of a node, of 2048.00|does not fit by GiB
2|3|5|7|11|full|577.50|65.7|1804|50 %|25 %|13 %|8 %|5 %|5.75|1.00|6.00|0.50
MFU: FLOPs by korthikanti2022/eq7, of 5.4e-06 TFLOP/s a device (a sheet of device.flops_f32)
why: t 2, w 3, d 5, b 7, m 55, recompute none: compute is 38 % of a batch's 2.6 s; the next (t 2, w 3, d 5, b 7, m 55, recompute none, shard optimizer) spends 0.8 s more on messages; t 2, w 3, d 5, b 7, m 55, recompute full would be 30.0 % faster, but does not fit by 512 MiB
run: frugal measure
)");
  const json all = report.json(), &first = all["fitting"][0], &large = all["too_large"][0];
  EXPECT_EQ(first["gradient_accumulation"], 11);
  EXPECT_EQ(first["memory_per_stage"],
            json::parse("[3221225472, 5637144576, 4294967296, 2147483648, 1073741824]"));
  EXPECT_EQ(first["host_memory_per_stage"],
            json::parse("[268435456, 1073741824, 536870912, 0, 0]"));
  EXPECT_EQ(first["executed"],
            json::parse(R"({"seconds": 2.75, "memory_per_stage": [11, 12, 13, 14, 15],
      "host_memory_per_stage": [21, 22, 23, 24, 25]})"));
  EXPECT_EQ(
      (std::array{first["host_memory_per_node"], first["missing_memory"], large["missing_memory"],
                  all["host_memory"], all["memory"], all["devices"], all["batch"]}),
      (std::array<json, 7>{6 * gibi, 0, gibi / 2, 2048 * gibi, 21 * gibi / 4, 30, 1155}));
  for (const auto& [key, value] :
       {std::pair{"seconds", 2.6},
        {"sequences_per_second", 1155 / 2.6},
        {"mfu", 1155 * 184320. / 2.6 / 30 / 5.4e6},
        {"device_hours_per_billion_tokens", 30 * 2.6 / 3600 / 1155 / 8 * 1e9}})
    EXPECT_NEAR(first[key].get<double>() / value, 1, 1e-12) << key;
  const json& parts = large["seconds_by_part"];
  EXPECT_EQ((std::array{parts["compute"], parts["messages"], parts["all-reduce"],
                        parts["optimizer"], parts["bubble"]}),
            (std::array<json, 5>{1., 0.5, 0.25, 0.15625, 0.09375}));
  EXPECT_EQ(
      (std::array{all["like_the_first"], all["within"], all["considered"], all["not_filling"]}),
      (std::array<json, 4>{1, 1.5, 3 + 1 + 13 + 19, 17}));
  EXPECT_EQ(all["prediction_errors"],
            json::parse(R"({"steps": {"count": 3, "median": 0.02, "largest": 0.05},
      "pairs": {"count": 7, "median": 0.03, "nine_in_ten": 0.7}, "differ_in": "shape", "source": "there"})"));
  plan.too_large.push_back(candidate(3, gibi / 4, Shard::none, Recompute::none));
  EXPECT_EQ(why_nothing_fits(request, plan)
                .find("none of 37 configurations fits in 5.25 GiB of a device (--memory); one of "
                      "the closest (t 2, w 3, d 5, "
                      "b 7, m 55, recompute none) misses by 256 MiB on stage 1"),
            0U)
      << why_nothing_fits(request, plan);
}

/// The fastest that fits has most layers of its kind, and beats one without modules, which is in no
/// other's way.
TEST(PrintedReports, OfRecomputation) {
  RecomputeReport report;
  report.memory = 19 * gibi / 4;
  const auto add = [&](Recompute kind, LayerModules modules, int64_t layers, double seconds,
                       int64_t quarters) {
    RecomputeWay& way = report.ways.emplace_back(RecomputeWay{tiny(), layers, seconds});
    way.run.recompute = kind;
    way.run.recompute_modules = modules;
    way.peak = quarters * gibi / 4;
    way.host = layers * mebi;
  };
  const LayerModules two = {LayerModule::norm, LayerModule::mlp};
  add(Recompute::full, RunConfig::cores, 7, 2.5, 8);
  add(Recompute::selective, two, 5, 1.75, 16);
  add(Recompute::selective, RunConfig::cores, 6, 1.875, 18);
  add(Recompute::selective, two, 4, 1.625, 20);
  add(Recompute::selective, two, 3, 1.5, 22);
  add(Recompute::none, RunConfig::cores, 0, 1, 36);
  EXPECT_EQ(
      report.table().csv(),
      R"(recompute,modules,layers,"step time, s",peak memory of a rank,host memory of a rank,remark
none,,0,1,9 GiB,0 B,does not fit
selective,norm+mlp,3,1.5,5.5 GiB,3 MiB,does not fit
selective,norm+mlp,5,1.75,4 GiB,5 MiB,the fastest that fits
full,,7,2.5,2 GiB,7 MiB,
selective,core-attention,6,1.875,4.5 GiB,6 MiB,"the fastest that fits, without modules"
)");
  const json all = report.json();
  EXPECT_EQ(all["fastest"],
            json::parse(R"({"recompute": "selective", "modules": "norm+mlp", "layers": 5,
      "step_seconds": 1.75, "peak_bytes": 4294967296, "host_bytes": 5242880})"));
  EXPECT_EQ(all["fastest_without_modules"]["layers"], 6);
  EXPECT_EQ((std::array{all["executed"], all["memory"], json(all["frontier"].size()),
                        json(all["frontier_without_modules"].size())}),
            (std::array<json, 4>{6, 19 * gibi / 4, 5, 3}));
}

/// Two groups; of one check each outcome, and of another what was compared.
TEST(PrintedReports, OfAValidation) {
  Validation validation;
  validation.seconds = 12.75;
  validation.watched = 3.5;
  validation.disturbance = {0.25, 0.03, true};
  validation.checks = {
      {"peaks", "x", Finding::Outcome::passed, "2 TB/s, sheet", "3 TB/s", "0.7 of it", "", "",
       Finding::Number{"B/s", {3e12, Interval{2.5e12, 4e12}, 17}, {2e12, "sheet"}, 1.4e12}, false,
       0.5},
      {"peaks", "y", Finding::Outcome::failed, "e", "s", "b", "slow", "look"},
      {"ranks", "z", Finding::Outcome::skipped, "", "", "", "alone", "wait"},
      {"ranks", "w", Finding::Outcome::skipped, "", "", "", "alone", "wait"},
      {"ranks", "v", Finding::Outcome::failed, "e2", "s2", "b2", "slower", "look too"},
      {"ranks", "u", Finding::Outcome::passed}};
  Series& copy = validation.series.emplace_back(Series{"copy", "a copy", "B/s", 12e9, 5, {}});
  for (const double at : {1., 2., 3., 4., 5., 6., 7.})
    copy.bursts.push_back({at, at == 7 ? 9. : 3., 10 + at, at < 7});
  EXPECT_EQ(barred(validation_page(validation, "a device", "table")),
            R"(FAIL: 2 of 4 checks failed; 2 could not be judged
a device; 13 s; other processes had 25 % of the processors' time, other systems 3 %

group|question|passed|failed|not judged
peaks|are products, memory and launches as fast as they should be?|1|1|0
ranks|is one rank slower than the others?|1|1|2

What failed:

- peaks y: slow
|seen: s
|expected: e
|allowed: b
|next: look
- ranks v: slower
|seen: s2
|expected: e2
|allowed: b2
|next: look too

What was not judged:

- ranks z, ranks w: alone
|next: wait

measured|key|value|rounds|left alone
a copy|copy|4 [4, 4] GB/s|7|6
)");
  const auto target = make_target({.on = "cpu", .threads = 2});
  const json all = to_json(validation, *target, "c");
  EXPECT_EQ(
      (std::array{all["verdict"], all["passed"], all["failed"], all["skipped"], all["seconds"],
                  all["watched_seconds"], all["others"]["processes"], all["others"]["steal"]}),
      (std::array<json, 8>{"fail", 2, 2, 2, 12.75, 3.5, 0.25, 0.03}));
  EXPECT_EQ(all["checks"][0]["number"],
            json::parse(R"({"unit": "B/s", "value": 3e12, "interval": [2.5e12, 4e12],
      "samples": 17, "expected": 2e12, "source": "sheet", "limit": 1.4e12})"));
  EXPECT_EQ((std::array{all["checks"][0]["expected"], all["checks"][0]["seen"],
                        all["checks"][0]["band"], all["checks"][0]["seconds"],
                        all["checks"][1]["reason"], all["checks"][1]["advice"]}),
            (std::array<json, 6>{"2 TB/s, sheet", "3 TB/s", "0.7 of it", 0.5, "slow", "look"}));
  EXPECT_EQ(all["series"]["copy"],
            json::parse(R"({"what": "a copy", "unit": "B/s", "work": 12e9, "burst": 5, "value": 4e9,
      "interval": [4e9, 4e9], "at": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "fastest": [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 9.0],
      "median": [11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0], "left_alone": [true, true, true, true, true, true, false]})"));
  const std::string junit = validation_junit(validation);
  EXPECT_NE(junit.find(R"(tests="6" failures="2" errors="0" skipped="2" time="0.500")"),
            std::string::npos);
  EXPECT_NE(junit.find("3 TB/s; expected: 2 TB/s, sheet; allowed: 0.7 of it"), std::string::npos);
}

}  // namespace
}  // namespace frugal::harness
