// Tables of machines and models from results that are made up. Each number was worked out by hand
// from those that are put in, which all differ.
#include <gtest/gtest.h>

#include "engine/program/find_program.h"
#include "harness/calibrate/known_errors.h"
#include "harness/place/target.h"
#include "harness/report/commands/calibration_report.h"
#include "harness/report/commands/peak_report.h"
#include "harness/report/commands/plan_report.h"
#include "tests/harness/support.h"
#include "tests/harness/values_at.h"
#include "tests/support/source_dir.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using testing::barred;
using testing::gibi;
using testing::mebi;
using testing::tiny;
using testing::values_at;

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

TEST(PrintedMachines, OfACalibration) {
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
  EXPECT_EQ(
      values_at(calibration().json(),
                "refit/parameters/0 refit/cells/0 refit/rms_percent held_out/0/errors "
                "held_out/0/errors_unseen "
                "held_out/0/cells/1/error_points held_out/0/cells/0/seen"),
      R"({"differs":true,"file":0.53,"flat":0.011,"key":"device.x","refitted":0.5,"unit":"1"} )"
      R"({"artifact":"paper/fit","column":"col","error_percent":25.0,"error_points":null,"paper":8.0,"read":"printed",)"
      R"("reason":"","refitted":9.0,"refitted_error_percent":12.5,"row":"a","status":"ok","unit":"ms","value":10.0} )"
      R"({"file":17.5,"refitted":8.25} )"
      R"({"percent":{"cells":3,"mean":2.5,"worst":7.25},"points":{"cells":2,"mean":1.5,"worst":3.0}} )"
      R"({"percent":{"cells":1,"mean":0.75,"worst":1.25},"points":null} 3.0 true)");
  EXPECT_EQ(
      values_at(calibration().json()["sensitivity"]["parameters"][0],
                "effect_percent value less/value more/value less/artifacts/0 "
                "more/artifacts/0/time_percent"),
      R"(18.75 0.5 0.45 0.55 {"artifact":"paper/one","errors":{"percent":{"cells":2,"mean":2.5,"worst":5.625},)"
      R"("points":null},"time_percent":18.75} -6.25)");
  EXPECT_EQ(
      values_at(calibration().json(), "published/1"),
      R"({"fitted":{"device.x":2.0},"held_out":[{"artifact":"paper/held","errors":{"percent":{"cells":2,)"
      R"("mean":2.5,"worst":2.75},"points":null},"longer_percent":-1.0}],"machine":"network.y = 2.5",)"
      R"("rms_percent":2.25,"source":"a page","values":{"network.y":2.5}})");
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
  peaks.copy.bytes = 100 * mebi;
  peaks.launch = {{3e-6, Interval{2e-6, 5e-6}, 10}, {7e-6, Interval{6e-6, 9e-6}, 11}};
  peaks.product_launch = {{4e-6, Interval{3e-6, 5e-6}, 10}, {8e-6, Interval{7e-6, 9e-6}, 11}};
  double value = 40;
  for (const Product& product : products_of({23, 29, 31})) {
    LinearRate& rate = peaks.linears.emplace_back();
    static_cast<Rate&>(rate) = rate_of({}, {}, value++);
    rate.type = DType::bf16;
    rate.product = product;
  }
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

TEST(PrintedMachines, OfErrorsThatAreKnown) {
  const json machine =
      json::parse(testing::read(testing::source_dir() + "/hardware/h100-dgx.json"));
  const json& said = machine["predictions"];
  const KnownErrors found = find_known_errors("h100-dgx").value();
  EXPECT_EQ(said["steps"], json({{"count", found.steps.count},
                                 {"median", found.steps.median},
                                 {"largest", found.steps.largest}}));
  EXPECT_EQ(said["pairs"], json({{"count", found.pairs.count},
                                 {"median", found.pairs.median},
                                 {"nine_in_ten", found.pairs.nine_in_ten}}));
  EXPECT_EQ(said["differ_in"], found.differ_in);
}

/// Step of a band's kind: 1.5 s of products on each device.
Record published_step(const json& band) {
  Record r = testing::full_record();
  r.source = Source::simulated;
  r.on = "virtual:" + band["machine"].get<std::string>();
  r.config.program = find_program(band["program"].get<std::string>());
  r.config.tensor_parallel = r.config.pipeline_parallel = r.config.context_parallel = 1;
  r.config.data_parallel = band["several_nodes"] ? 1 << 10 : 1;
  r.config.model.sequence = band["long"] ? 8192 : 8191;
  r.scale = 1;
  r.flops = Flops{1e15, "eq", 1.5e15, "executed", 1.5e15};
  r.utilization = Utilization{1e15, {}, {}, {}, {}, {}};
  r.work->done.calls.launches = band["host_bound"] ? 30'001 : 29'999;  // 50 us each
  return r;
}

TEST(PrintedMachines, OfBandsOfPublishedRuns) {
  const json said = json::parse(
      testing::read(testing::source_dir() + "/results/virtual/published/bands.json"))["bands"];
  ASSERT_FALSE(said.empty());
  for (const json& band : said) {
    Record r = published_step(band);
    const std::optional<Band> found = find_band(r);
    ASSERT_TRUE(found) << band;
    EXPECT_EQ(to_json(*found), band);
    const std::vector<Band> of_plan = find_bands(band["machine"], r.config);
    EXPECT_EQ(std::ranges::count_if(of_plan, [&](const Band& b) { return to_json(b) == band; }), 1);
    if (band["program"] != "frugal") {  // a variant of it
      r.config.program = find_program(band["program"].get<std::string>() + "+rotary-tables");
      EXPECT_EQ(to_json(find_band(r).value()), band);
    }
    r.scale = 4;
    EXPECT_FALSE(find_band(r));
    EXPECT_TRUE(find_bands(band["machine"].get<std::string>() + "#12345678", r.config).empty());
    r.scale = 1;
    r.lone_stages.emplace();
    EXPECT_FALSE(find_band(r));
    r.lone_stages.reset();
    r.config.program = find_program("rotary-tables");
    EXPECT_FALSE(find_band(r));
  }
}

TEST(PrintedMachines, OfABandInWords) {
  const Band band{"a", "b", true, false, true, 29, 0.4125, 0.5401};
  EXPECT_EQ(band.text(),
            "predicted times of 29 published runs like it (a, b, fewer than 8k tokens, several "
            "nodes, bound by the host) were off by 41 % (median), 54 % at most");
}

TEST(PrintedMachines, OfPeaks) {
  EXPECT_EQ(peak_table(peaks()).csv(), R"(what,size,median rate,interval,unit
gemm f32,5 x 7 x 11,10,"[9, 12]",GFLOP/s
gemm f32,13,30,"[29, 32]",GFLOP/s
gemm f32,17,20,"[19, 22]",GFLOP/s
measured peak f32,13,30,"[29, 32]",GFLOP/s
gemm bf16,19,50,"[49, 52]",GFLOP/s
measured peak bf16,19,50,"[49, 52]",GFLOP/s
forward bf16,23 x 31 x 29,40,"[39, 42]",GFLOP/s
input-gradient bf16,23 x 29 x 31,41,"[40, 43]",GFLOP/s
weight-gradient bf16,31 x 29 x 23,42,"[41, 44]",GFLOP/s
first-weight-gradient bf16,31 x 29 x 23,43,"[42, 45]",GFLOP/s
copy,100 MiB,60,"[59, 62]",GB/s
"all-reduce, 5 ranks, bus",2048 KiB,70,"[69, 72]",GB/s
"all-gather, 5 ranks, bus",3072 KiB,90,"[89, 92]",GB/s
"reduce-scatter, 5 ranks, bus",4096 KiB,80,"[79, 82]",GB/s
small operation,,3,"[2, 5]",us
issuing one,,7,"[6, 9]",us
small product,,4,"[3, 5]",us
issuing a product,,8,"[7, 9]",us
)");
  const auto target = make_target({.on = "cpu", .threads = 2});
  EXPECT_EQ(
      values_at(to_json(peaks(), *target),
                "gemm/0 measured_peak/f32/size copy launch collectives/1 linear/1 linear/2/result "
                "linear/3/result product_launch/issue"),
      R"({"flops_per_second":10000000000.0,"interval":[9000000000.0,12000000000.0],"k":11,"m":5,"n":7,"repetitions":3,)"
      R"("seconds":[0.25,0.5],"size":null,"type":"f32"} 13 )"
      R"({"bytes":104857600,"bytes_per_second":60000000000.0,"interval":[59000000000.0,62000000000.0],"repetitions":3,)"
      R"("seconds":[0.25,0.5]} {"each":{"interval":[2e-06,5e-06],"samples":10,"seconds":3e-06},)"
      R"("issue":{"interval":[6e-06,9e-06],"samples":11,"seconds":7e-06},"operations":1000} )"
      R"({"bus_bytes_per_second":90000000000.0,"bytes":3145728,"collective":"all-gather","factor":1.6,)"
      R"("interval":[89000000000.0,92000000000.0],"ranks":5,"repetitions":3,"seconds":[0.25,0.5]} )"
      R"({"flops_per_second":41000000000.0,"interval":[40000000000.0,43000000000.0],"k":31,"m":23,"n":29,)"
      R"("product":"input-gradient","repetitions":3,"result":"bf16","seconds":[0.25,0.5],"type":"bf16"} )"
      R"("added to float32" "float32" {"interval":[7e-06,9e-06],"samples":11,"seconds":8e-06})");
  EXPECT_EQ(
      values_at(measured_machine(peaks(), *target, "m", "c")["measured"],
                "flops_f32 memory_bandwidth/source memory_bandwidth/value launch_overhead/value "
                "operation_time/value link_bandwidth"),
      R"({"interval":[29000000000.0,32000000000.0],"source":"best median of 3 matrix products, m x n x k 13 x 13 x 13",)"
      R"("unit":"FLOP/s","value":30000000000.0} "copy of 52428800 bytes to as many, read and written" 60000000000.0 )"
      R"(7e-06 3e-06 {"interval":[89000000000.0,92000000000.0],)"
      R"("source":"bus bandwidth of all-gather of 3145728 bytes by 5 ranks","unit":"B/s","value":90000000000.0})");
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
TEST(PrintedMachines, OfAPlan) {
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
  const nlohmann::json all = report.json(), &first = all["fitting"][0];
  EXPECT_EQ(
      values_at(first,
                "gradient_accumulation memory_per_stage host_memory_per_stage executed "
                "host_memory_per_node missing_memory"),
      R"(11 [3221225472,5637144576,4294967296,2147483648,1073741824] [268435456,1073741824,536870912,0,0] )"
      R"({"host_memory_per_stage":[21,22,23,24,25],"memory_per_stage":[11,12,13,14,15],"seconds":2.75} 6442450944 0)");
  EXPECT_EQ(
      values_at(
          all,
          "too_large/0/missing_memory too_large/0/seconds_by_part host_memory memory devices batch "
          "like_the_first within considered not_filling prediction_errors"),
      R"(536870912 {"all-reduce":0.25,"bubble":0.09375,"compute":1.0,"messages":0.5,"optimizer":0.15625} )"
      R"(2199023255552 5637144576 30 1155 1 1.5 36 17 {"differ_in":"shape","pairs":{"count":7,"median":0.03,)"
      R"("nine_in_ten":0.7},"source":"there","steps":{"count":3,"largest":0.05,"median":0.02}})");
  for (const auto& [key, value] :
       {std::pair{"seconds", 2.6},
        {"sequences_per_second", 1155 / 2.6},
        {"mfu", 1155 * 184320. / 2.6 / 30 / 5.4e6},
        {"device_hours_per_billion_tokens", 30 * 2.6 / 3600 / 1155 / 8 * 1e9}})
    EXPECT_NEAR(first[key].get<double>() / value, 1, 1e-12) << key;
  plan.too_large.push_back(candidate(3, gibi / 4, Shard::none, Recompute::none));
  EXPECT_EQ(why_nothing_fits(request, plan)
                .find("none of 37 configurations fits in 5.25 GiB of a device (--memory); one of "
                      "the closest (t 2, w 3, d 5, "
                      "b 7, m 55, recompute none) misses by 256 MiB on stage 1"),
            0U)
      << why_nothing_fits(request, plan);
}

}  // namespace
}  // namespace frugal::harness
