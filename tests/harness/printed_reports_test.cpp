// Tables and files of commands from results that are made up. Each number was worked out by hand
// from those that are put in, which all differ.
#include <gtest/gtest.h>

#include "harness/report/commands/attribution_report.h"
#include "harness/report/commands/benchmark_report.h"
#include "harness/report/commands/comparison_report.h"
#include "harness/report/commands/longest_report.h"
#include "harness/report/commands/recompute_report.h"
#include "harness/report/commands/rerun_report.h"
#include "harness/report/commands/validation_report.h"
#include "harness/report/commands/work_report.h"
#include "tests/harness/support.h"
#include "tests/harness/values_at.h"

namespace frugal::harness {
namespace {

using testing::barred;
using testing::gibi;
using testing::mebi;
using testing::tiny;
using testing::values_at;

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
  EXPECT_EQ(
      values_at(to_json({one}, "c")["cells"][0],
                "terms/0 terms/1/alone paper frugal program unexplained"),
      R"({"added":4.0,"alone":3.5,"as_the_last":-2.0,"behaviour":"float32-norms","status":"counted"} null 20.25 11.0 17.0 3.25)");
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

/// Three rounds: a takes 2, 0.5 and 4 times as long as b; b has a rate of 12 in 2 s, c of 12 in 8.
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

/// A third more work, on a device that was slower by a half while it was timed: the half is more.
TEST(PrintedReports, OfARatioWhoseControlMovedMore) {
  using Shows = ResultColumn::Shows;
  const Benchmark benchmark{
      .name = "b",
      .title = "t",
      .axes = {{"size", {"3", "5"}}, {"by", {"a", "b"}}},
      .by_turns = {"by"},
      .reference = Reference{"by", {"b"}},
      .columns = {{"ms", "time", Shows::value, 1e-3},
                  {.name = "ratio", .metric = "time", .shows = Shows::ratio, .control = "part"}}};
  const auto with_part = [](Record record, std::vector<double> part) {
    record.metrics["part"] = {"s", std::move(part)};
    return record;
  };
  const std::vector<Record> records{with_part(timed("3", "a", 1, {4, 4, 4}), {1.5, 1.5, 1.5}),
                                    with_part(timed("3", "b", 1, {3, 3, 3}), {1, 1, 1}),
                                    with_part(timed("5", "a", 1, {4, 4, 4}), {1.25, 1.25, 1.25}),
                                    with_part(timed("5", "b", 1, {3, 3, 3}), {1, 1, 1})};
  EXPECT_EQ(benchmark_table(benchmark, records).csv(),
            R"(size,by,source,ms,ratio,rounds,status
3,a,"measured, cpu",4000,refused,3,"ok; ratio refused: part, the same work, changed by +50.0 %, and the whole by +33.3 %: the device was at another speed in the turns of one of them; time them again with --steady --rerun all"
3,b,"measured, cpu",3000,,3,ok
5,a,"measured, cpu",4000,1.333,3,ok
5,b,"measured, cpu",3000,,3,ok
)");
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
  EXPECT_EQ(
      values_at(to_json(report),
                "quantities/0 quantities/1/candidate_processes margin level only_base "
                "only_candidate base"),
      R"({"base":0.5,"base_processes":7,"by_turns":true,"candidate":0.25,"candidate_processes":7,"case":"case 64",)"
      R"("change":"faster","interval":{"high":0.625,"low":0.4375},"note":"n","p":0.03,"quantity":"time","ratio":0.5,)"
      R"("unit":"s","which":"threads 2"} 1 0.03 0.07 ["gone"] ["come"] "old")");
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
  EXPECT_EQ(values_at(report.json(),
                      "memory longest_sequence granularity peak longer_lengths_refused host_peak "
                      "at_peak/activation configuration/model/sequence_length confirmed run"),
            R"(3221225472 40 8 7340032 64 19922944 5242880 40 true )"
            R"([{"fits":true,"peak":11534336,"reason":"","tokens":40},)"
            R"({"fits":false,"peak":null,"reason":"no room","tokens":48}])");
  report.tried[1].fits = true;
  EXPECT_FALSE(report.confirmed());
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
  EXPECT_EQ(
      values_at(report.json(),
                "fastest fastest_without_modules/layers executed memory frontier/4/layers "
                "frontier_without_modules/2/layers"),
      R"({"host_bytes":5242880,"layers":5,"modules":"norm+mlp","peak_bytes":4294967296,"recompute":"selective",)"
      R"("step_seconds":1.75} 6 6 5100273664 7 7)");
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
  EXPECT_EQ(
      values_at(to_json(validation, *target, "c"),
                "verdict passed failed skipped seconds watched_seconds others/processes "
                "others/steal checks/0 "
                "checks/1/reason checks/1/advice series/copy"),
      R"("fail" 2 2 2 12.75 3.5 0.25 0.03 {"advice":"","band":"0.7 of it","computes_wrongly":false,)"
      R"("expected":"2 TB/s, sheet","group":"peaks","name":"x","number":{"expected":2000000000000.0,)"
      R"("interval":[2500000000000.0,4000000000000.0],"limit":1400000000000.0,"samples":17,"source":"sheet",)"
      R"("unit":"B/s","value":3000000000000.0},"outcome":"passed","reason":"","seconds":0.5,"seen":"3 TB/s"} )"
      R"("slow" "look" {"at":[1.0,2.0,3.0,4.0,5.0,6.0,7.0],"burst":5,"fastest":[3.0,3.0,3.0,3.0,3.0,3.0,9.0],)"
      R"("interval":[4000000000.0,4000000000.0],"left_alone":[true,true,true,true,true,true,false],)"
      R"("median":[11.0,12.0,13.0,14.0,15.0,16.0,17.0],"unit":"B/s","value":4000000000.0,"what":"a copy",)"
      R"("work":12000000000.0})");
  const std::string junit = validation_junit(validation);
  EXPECT_NE(junit.find(R"(tests="6" failures="2" errors="0" skipped="2" time="0.500")"),
            std::string::npos);
  EXPECT_NE(junit.find("3 TB/s; expected: 2 TB/s, sheet; allowed: 0.7 of it"), std::string::npos);
}

}  // namespace
}  // namespace frugal::harness
