#include "bench/numbers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "bench/benchmarks.h"
#include "bench/timed.h"
#include "engine/schedule/schedules.h"
#include "engine/train/module_run.h"
#include "harness/measure/runs/case_run.h"
#include "harness/place/target.h"
#include "harness/report/commands/benchmark_report.h"

namespace frugal::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Lt;

using Samples = std::map<std::string, std::vector<double>>;
using Cells = std::map<std::string, std::string>;
constexpr double mib = 1048576;

Record made_up(const Benchmark& benchmark, const std::vector<std::string>& point,
               const Samples& samples) {
  Record record;
  record.artifact = benchmark.artifact();
  record.rounds = "the same";
  for (size_t i = 0; i < point.size(); ++i) {
    record.options[benchmark.axes[i].name] = point[i];
    record.case_id += (i == 0 ? "" : "/") + point[i];
  }
  for (const auto& [name, values] : samples)
    for (const double value : values) record.add_sample(name, "", value);
  return record;
}

/// The benchmark's own columns of the first record.
Cells cells_of_first(const Benchmark& benchmark, const std::vector<Record>& records) {
  const Table table = benchmark_table(benchmark, records);
  Cells cells;
  for (size_t i = 0; i < table.columns.size(); ++i)
    for (const ResultColumn& column : benchmark.columns)
      if (column.name == table.columns[i].name) cells[column.name] = table.rows[0][i];
  return cells;
}

/// A median of 4 ms for 6e9 units of work; in rounds a quarter, a half and a third of what half of
/// the work took. Both have three samples, too few for an interval.
Cells cells_beside_reference(const Benchmark& benchmark, const std::vector<std::string>& point,
                             const std::vector<std::string>& reference, Samples ours = {},
                             Samples theirs = {}) {
  ours.merge(Samples{{"time", {2e-3, 4e-3, 10e-3}}, {"work", {6e9}}});
  theirs.merge(Samples{{"time", {8e-3, 8e-3, 30e-3}}, {"work", {3e9}}});
  return cells_of_first(benchmark,
                        {made_up(benchmark, point, ours), made_up(benchmark, reference, theirs)});
}

TEST(BenchmarkTables, RatesAreOverTheReferences) {
  EXPECT_EQ(cells_beside_reference(gemm(), {"f32", "qkv/forward", "frugal"},
                                   {"f32", "qkv/forward", "oneDNN"}),
            (Cells{{"GFLOP/s", "1500"}, {"times oneDNN's", "6"}}));
  EXPECT_EQ(cells_beside_reference(attention(), {"f32", "64x512", "forward", "fused"},
                                   {"f32", "64x512", "forward", "separate"}),
            (Cells{{"GFLOP/s", "1500"}, {"times separate's", "6"}}));
  EXPECT_EQ(cells_beside_reference(memory_bound(), {"f32", "gelu", "4096", "frugal"},
                                   {"f32", "gelu", "4096", "copy"}),
            (Cells{{"GB/s", "1500"}, {"times a copy's", "6"}}));
  EXPECT_EQ(
      cells_beside_reference(layer(), {"f32", "layer"}, {"f32", layer().axes[1].values.back()}),
      (Cells{{"GFLOP/s", "1500"}, {"times the fastest product's", "6"}}));
}

TEST(BenchmarkTables, TimesAndBytesAreInTheUnitsThatTheyName) {
  EXPECT_EQ(cells_beside_reference(
                recompute(), {"22B", "norm"}, {"22B", "none"},
                {{"kept", {3 * mib}}, {"peak", {5 * mib}}, {"forward_time", {1e-3, 1e-3, 1e-3}}},
                {{"forward_time", {1e-3, 2e-3, 0.8e-3}}}),
            (Cells{{"kept, MiB", "3"},
                   {"peak, MiB", "5"},
                   {"time, ms", "4"},
                   {"times none's", "0.3333"},
                   {"forward, times none's", "1"},
                   {"FLOPs, times none's", "2"}}));
  EXPECT_EQ(cells_beside_reference(mini_sequence(), {"d512-s1024", "none", "8"},
                                   {"d512-s1024", "none", "1"},
                                   {{"part_tokens_over_hidden_size", {0.75}}}),
            (Cells{{"C/d", "0.75"},
                   {"step, ms", "4"},
                   {"times M = 1", "0.3333"},
                   {"FLOPs, times M = 1", "2"}}));
  EXPECT_EQ(cells_beside_reference(mini_sequence_memory(), {"d512-s1024", "none", "8"},
                                   {"d512-s1024", "none", "1"},
                                   {{"part_tokens_over_hidden_size", {0.75}},
                                    {"ledger_peak", {3 * mib}},
                                    {"resident_growth_within_peak", {5 * mib}},
                                    {"resident_growth", {7 * mib}}},
                                   {{"ledger_peak", {12 * mib}},
                                    {"resident_growth_within_peak", {25 * mib}},
                                    {"resident_growth", {70 * mib}}}),
            (Cells{{"C/d", "0.75"},
                   {"ledger, MiB", "3"},
                   {"times M = 1", "0.25"},
                   {"resident, MiB", "5"},
                   {"resident, times M = 1", "0.2"},
                   {"with all kept, MiB", "7"},
                   {"with all kept, times M = 1", "0.1"}}));
  EXPECT_EQ(
      cells_beside_reference(processes(), {"message", "1KiB", "processes"},
                             {"message", "1KiB", "threads"}),
      (Cells{{"ms", "4"}, {"GB/s sent by a rank", "1500"}, {"time over threads'", "0.3333"}}));
}

TEST(BenchmarkTables, BubblesStandBesideThoseThatWerePlanned) {
  EXPECT_EQ(cells_beside_reference(pipeline(), {"2bw", "4"}, {"1f1b", "4"},
                                   {{"work", {16}},
                                    {"bubble", {0.11}},
                                    {"planned_bubble", {0.13}},
                                    {"ideal_bubble", {0.17}},
                                    {"steady_bubble", {0.19}},
                                    {"planned_steady_bubble", {0.23}},
                                    {"forward_time", {0.029}},
                                    {"backward_time", {0.031}},
                                    {"step_time", {0.037}},
                                    {"last_stage_over_first", {0.41}}},
                                   {{"work", {8}}}),
            (Cells{{"microbatches/s", "4000"},
                   {"times 1F1B's", "6"},
                   {"bubble", "0.11"},
                   {"planned", "0.13"},
                   {"(p − 1)/m", "0.17"},
                   {"steady", "0.19"},
                   {"steady, planned", "0.23"},
                   {"forward, ms", "29"},
                   {"backward, ms", "31"},
                   {"step, ms", "37"},
                   {"last stage over first", "0.41"}}));
}

TEST(BenchmarkTables, PredictionsAndPlansAreCounted) {
  const std::vector<std::string> point = {"layer", "gpt-3m"};
  std::vector<Record> records = {made_up(prediction(), point,
                                         {{"time", {4e-3}},
                                          {"virtual_time", {5e-3}},
                                          {"virtual_time_error", {0.05}},
                                          {"virtual_time_by_peaks_error", {-0.07}}}),
                                 made_up(prediction(), point, {{"virtual_time_error", {-0.1}}}),
                                 made_up(prediction(), point, {{"virtual_time_error", {0.03}}})};
  EXPECT_EQ(cells_of_first(prediction(), records),
            (Cells{{"measured, ms", "4"},
                   {"predicted by the virtual machine, ms", "5"},
                   {"error, %", "5"},
                   {"error by peaks alone, %", "-7"}}));
  EXPECT_THAT(prediction().summary(records),
              ElementsAre("error of the prediction: mean 6.0 %, worst 10.0 %, of 3 cases"));

  records = {made_up(plan(), {"22B", "8", "64", "2bw"},
                     {{"configurations", {17}},
                      {"executed", {13}},
                      {"slower_by", {0.03}},
                      {"settled_slower_by", {0.02}},
                      {"largest_time_error", {-0.11}},
                      {"largest_memory_error", {-19}}})};
  records[0].findings = {{"first choice", "a"}, {"best executed", "b"}};
  EXPECT_EQ(cells_of_first(plan(), records), (Cells{{"first choice", "a"},
                                                    {"considered", "17"},
                                                    {"executed", "13"},
                                                    {"best executed", "b"},
                                                    {"slower by, %", "3"},
                                                    {"with --execute 10, %", "2"},
                                                    {"largest error of time, %", "-11"},
                                                    {"of memory, bytes", "-19"}}));
  for (const auto& [first, settled] :
       {std::pair(0.0, 0.0), {0.0, 0.0}, {0.009, 0.0}, {0.011, 0.0}, {0.049, 0.02}, {0.051, 0.0}})
    records.push_back(made_up(plan(), {"22B", "8", "64", "2bw"},
                              {{"slower_by", {first}}, {"settled_slower_by", {settled}}}));
  EXPECT_THAT(plan().summary(records),
              ElementsAre("the first choice is the best executed in 2 of 7 cases, and within 1 % "
                          "of it in 3, within 5 % in 6",
                          "with --execute 10 it is the best executed in 5 of 7 cases"));
}

TEST(BenchmarkNumbers, AProcessGrewByItsMostMemoryLessThatBefore) {
  Record record;
  add_memory({{"ledger_peak", 3}, {"resident_before", 5}, {"resident_peak", 12}},
             {{"ledger_peak", 2}, {"resident_before", 6}, {"resident_peak", 17}}, record);
  std::map<std::string, double> bytes;
  for (const auto& [name, metric] : record.metrics) bytes[name] = metric.samples.at(0);
  EXPECT_EQ(bytes, (std::map<std::string, double>{{"ledger_peak", 3},
                                                  {"resident_before", 5},
                                                  {"resident_peak", 12},
                                                  {"resident_growth", 7},
                                                  {"resident_before_within_peak", 6},
                                                  {"resident_peak_within_peak", 17},
                                                  {"resident_growth_within_peak", 11}}));
}

TEST(BenchmarkNumbers, AnExecutedPlanIsComparedWithTheBestOfAllAndOfTen) {
  ExecutedPlan plan;
  plan.add("first", {8, {100, 110}}, {10, {100, 90}});  // -20 %, 20 bytes too many
  for (int i = 0; i < 8; ++i) plan.add("other", {9, {1}}, {9, {1}});
  plan.add("tenth", {5, {10, 10}}, {5, {10, 15}});
  plan.add("eleventh", {4.4, {70, 40}}, {4, {100, 15}});  // +10 %, 30 bytes too few
  Record record;
  plan.add_to(record, 300);
  const std::map<std::string, double> expected = {{"configurations", 300},
                                                  {"executed", 11},
                                                  {"first_choice_time", 10},
                                                  {"best_executed_time", 4},
                                                  {"slower_by", 1.5},
                                                  {"settled_slower_by", 0.25},
                                                  {"largest_time_error", 8.0 / 10 - 1},
                                                  {"largest_memory_error", -30}};
  ASSERT_EQ(record.metrics.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_THAT(record.samples(name), ElementsAre(DoubleEq(value))) << name;
  EXPECT_EQ(record.findings,
            (std::map<std::string, std::string>{{"first choice", "first"},
                                                {"best executed", "eleventh"},
                                                {"least exact time", "first"},
                                                {"least exact memory", "eleventh"}}));
}

TEST(BenchmarkNumbers, PredictionsAndExchangesAreThoseOfTheirDefinitions) {
  Record record;
  for (const double seconds : {1.0, 4.0, 16.0}) record.add_sample("time", "s", seconds);
  add_prediction(5, "predicted", "error", record);
  EXPECT_THAT(record.samples("predicted"), ElementsAre(5));
  EXPECT_THAT(record.samples("error"), ElementsAre(0.25));
  EXPECT_EQ(sent_by_rank("all-reduce", 300, 3), 400);
  EXPECT_EQ(sent_by_rank("all-gather", 300, 3), 200);
  EXPECT_EQ(sent_by_rank("reduce-scatter", 300, 3), 200);
  EXPECT_EQ(sent_by_rank("message", 300, 3), 300);
}

/// Seconds of passes and steps of both stages between two times, a multiple of 1/16 s each.
double busy_between(const Timeline& timeline, double begin, double end) {
  double busy = 0;
  for (double middle = begin + 1.0 / 32; middle < end; middle += 1.0 / 16)
    for (const auto& spans : timeline.stages)
      for (const Span& span : spans)
        if (!is_message(span.action.kind) && span.begin < middle && middle < span.end)
          busy += 1.0 / 16;
  return busy;
}

/// The second stage's passes take half a second longer than the first's.
TEST(BenchmarkNumbers, ATimelinesSteadyPartIsBetweenTheFillAndTheDrain) {
  const ScheduleKind kind = ScheduleKind::two_buffered;
  const Schedule schedule = make_schedule(kind, {.stages = 2, .microbatches = 4, .batches = 2});
  Durations durations{.forward = 2, .backward = 5, .activation = 0.5, .gradient = 0.25, .step = 1};
  Timeline timeline = simulate(schedule, durations);
  std::vector<double> busy(2), first_backward(2, 1e9), last_forward(2);
  for (size_t stage = 0; stage < 2; ++stage)
    for (Span& span : timeline.stages[stage]) {
      if (stage == 0 && is_pass(span.action.kind)) span.end -= 0.5;
      if (!is_message(span.action.kind)) busy[stage] += span.end - span.begin;
      if (span.action.kind == ActionKind::backward)
        first_backward[stage] = std::min(first_backward[stage], span.begin);
      if (span.action.kind == ActionKind::forward)
        last_forward[stage] = std::max(last_forward[stage], span.end);
    }
  const auto idle = [](const Timeline& of, double begin, double end) {
    const double work = busy_between(of, begin, end);
    return (2 * (end - begin) - work) / work;
  };
  Record record;
  add_timeline(timeline, kind, record);
  durations.forward = 1.75;
  durations.backward = 4.75;
  const double begin = *std::ranges::max_element(first_backward),
               end = *std::ranges::min_element(last_forward);
  const std::map<std::string, double> expected = {
      {"bubble", idle(timeline, 0, timeline.end())},
      {"planned_bubble",
       idle(simulate(schedule, durations), 0, simulate(schedule, durations).end())},
      {"steady_bubble", idle(timeline, begin, end)},
      {"forward_time", 1.75},
      {"backward_time", 4.75},
      {"step_time", 1},
      {"last_stage_over_first", busy[1] / busy[0]}};
  EXPECT_LT(expected.at("steady_bubble"), expected.at("bubble") / 2);
  for (const auto& [name, value] : expected)
    EXPECT_THAT(record.samples(name), ElementsAre(DoubleNear(value, 1e-9))) << name;
  EXPECT_THAT(record.samples("planned_steady_bubble"),
              ElementsAre(Lt(expected.at("planned_bubble") / 2)));

  RunConfig config;
  config.pipeline_parallel = 5;
  config.microbatches = 8;
  EXPECT_EQ(ideal_bubble(config), 0.5);
  config.schedule = kind;
  EXPECT_EQ(ideal_bubble(config), 0);
  config.schedule = ScheduleKind::inter_layer;
  EXPECT_EQ(ideal_bubble(config), 4);
}

/// The record of a case before its first round, or after one.
Record observed(const Benchmark& benchmark, const std::string& id, const std::string& on,
                bool timed = false) {
  const auto target = make_target({.on = on, .threads = benchmark.name[0] == 'p' ? 2 : 1});
  for (const Case& c : cases_of(benchmark, benchmark.places.size() > 1 ? on : "", id)) {
    if (c.id != id) continue;
    const auto run = std::get<workload::Benchmark>(c.workload).make(*target);
    Record record;
    run->observe(record);
    const double start = steady_seconds();
    if (timed) run->time(record, true);
    record.losses = {steady_seconds() - start};  // where a test finds it
    run->release(record);
    return record;
  }
  throw std::out_of_range(id);
}

double work_of(const Benchmark& benchmark, const std::string& id, const std::string& on = "cpu") {
  return observed(benchmark, id, on).samples("work").at(0);
}

TEST(BenchmarkNumbers, WorkIsThatOfTheEquations) {
  EXPECT_EQ(work_of(gemm(), "f32/mlp-down/input-gradient/frugal"), 2.0 * 2048 * 4096 * 1024);
  EXPECT_EQ(work_of(gemm(), "f32/h1536/qkv/weight-gradient/oneDNN"), 2.0 * 4608 * 1536 * 2048);
  EXPECT_EQ(work_of(gemm(), "bf16/attention/context/frugal"), 2.0 * 32 * 1024 * 64 * 1024);
  EXPECT_EQ(work_of(gemm(), "bf16/llama3-8b/mlp-down/8192x14336x4096/input-gradient/frugal",
                    "virtual:h100-dgx"),
            2.0 * 8192 * 14336 * 4096);
  const double pairs = 16.0 * 2048 * 2049 / 2;
  EXPECT_EQ(work_of(attention(), "f32/16x2048/forward/fused"), 2 * 2 * 64 * pairs);
  EXPECT_EQ(work_of(attention(), "f32/16x2048/backward/fused"), 4 * 2 * 64 * pairs);
  EXPECT_DOUBLE_EQ(work_of(layer(), "f32/layer"),
                   72.0 * 4 * 512 * 1024 * 1024 * (1 + 512.0 / (6 * 1024)));
  EXPECT_EQ(work_of(layer(), "bf16/gemm-1024"), 2.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(work_of(pipeline(), "2bw/8"), 16);
  EXPECT_EQ(work_of(processes(), "all-reduce/16KiB/threads"), 16384);  // of two ranks
  EXPECT_EQ(work_of(processes(), "reduce-scatter/4MiB/threads"), 2 * 1048576);
  EXPECT_THAT(observed(pipeline(), "gpipe/8", "cpu").samples("ideal_bubble"), ElementsAre(1.0 / 8));
  const Record steps = observed(mini_sequence(), "d512-s1024/none/8", "virtual:h100-dgx");
  EXPECT_THAT(steps.samples("part_tokens_over_hidden_size"), ElementsAre(0.25));
  // Two layers of 4 heads that share keys and values and of an MLP of 1792, and the head: forward,
  // and twice as much backward; of attention's s² pairs two products forward and five backward.
  const double s = 1024, h = 512, weights = 2 * h * (h + 2 * h / 4 + h + 3 * 1792) + h * 16032;
  const double work = 6 * s * weights + 2 * 2 * (2 + 5) * h * s * s;
  EXPECT_NEAR(steps.samples("work").at(0) / work, 1, 1e-3);
}

/// Passes of a layer by a clock that does not run; messages there and back and the batches of a run
/// against the test's own clock.
TEST(BenchmarkNumbers, TimesAreOfAllThatTheySay) {
  const std::string machine = "virtual:h100-dgx";
  const auto target = make_target({.on = machine});
  const auto cluster = target->cluster(cases_of(layer(), "", "bf16/layer").front().config);
  const ModuleTime passes = ModuleRun(*cluster).time();
  EXPECT_NEAR(observed(layer(), "bf16/layer", machine, true).samples("time").at(0),
              passes.forward + passes.backward, 1e-12);
  const Record batches = observed(pipeline(), "gpipe/2", "cpu", true);
  EXPECT_GT(batches.samples("time").at(0), batches.losses.at(0) / 2);
  const Record messages = observed(processes(), "message/256KiB/threads", "cpu", true);
  EXPECT_LT(messages.samples("time").at(0) * 2 * 32, messages.losses.at(0));
}

/// 512 MiB, at 4096 elements of a row one row more; a softmax's loss of 50304 as its gradient
/// reads and writes them, with each row's label and two numbers beside.
TEST(BenchmarkNumbers, MemoryBoundOperationsMoveWhatACopyDoes) {
  const std::string machine = "virtual:h100-dgx";
  EXPECT_EQ(work_of(memory_bound(), "f32/gelu/4096/copy", machine), 512 * mib);
  EXPECT_EQ(work_of(memory_bound(), "f32/gelu/4096/frugal", machine),
            (16384 + 1) * 4096.0 * (4 + 4));
  EXPECT_EQ(work_of(memory_bound(), "bf16/gelu-backward/4096/frugal", machine),
            (21845 + 1) * 4096.0 * (2 + 2 + 2));
  for (const double width : {50304., 128256.}) {
    const double work = work_of(
        memory_bound(), fmt::format("bf16/cross-entropy/at-once/{:.0f}/frugal", width), machine);
    EXPECT_GE(work, 512 * mib);
    EXPECT_LE(work, 512 * mib + 3 * width * (2 + 2));
  }
  const double copied =
      observed(memory_bound(), "f32/gelu/4096/copy", machine, true).samples("time").at(0);
  const Machine h100 = make_target({.on = machine})->machine().value();
  EXPECT_NEAR(copied * h100.memory_bandwidth * h100.memory_fraction / (512 * mib), 1, 0.01);
}

/// Table 2 of korthikanti2022 and its 4/3, for 22B's layer: s = 2048 tokens, h = 6144, a = 64.
TEST(BenchmarkNumbers, RecomputedLayersKeepAndDoWhatTheirPaperSays) {
  const std::string machine = "virtual:h100-dgx";
  const double s = 2048, h = 6144, a = 64, forward = 24 * s * h * h * (1 + s / (6 * h));
  std::map<std::string, Record> layers;
  for (const std::string how : {"none", "core-attention", "full"})
    layers[how] = observed(recompute(), "22B/" + how, machine, true);
  const auto number = [&](const std::string& how, const std::string& metric) {
    return layers.at(how).samples(metric).at(0);
  };
  EXPECT_EQ(number("full", "kept"), 2 * s * h);
  EXPECT_EQ(number("none", "kept") - number("core-attention", "kept"), 4 * a * s * s);
  EXPECT_EQ(number("none", "work"), 3 * forward);
  EXPECT_EQ(number("full", "work"), 4 * forward);
  EXPECT_NEAR(number("full", "time") / number("none", "time"), 4.0 / 3, 0.05);
  EXPECT_GT(number("none", "peak"), number("core-attention", "peak"));
  EXPECT_GT(number("none", "peak"),
            number("none", "kept") + 2 * 12 * h * h);  // and weights of 2 bytes
}

TEST(BenchmarkNumbers, ASampleIsOneOfSoManyRepetitions) {
  const auto target = make_target({.on = "virtual:h100-dgx"});
  OneDevice one(*target);
  const Buffer from(one.device, DType::f32, {1 << 20}), to(one.device, DType::f32, {1 << 20});
  int issued = 0;
  const auto seconds = timed_on(
      one.device,
      [&] {
        ++issued;
        one.device.execute(Convert{from.view(), to.view()});
      },
      20);
  one.device.synchronize();
  const double before = one.device.now(), each = seconds();
  EXPECT_EQ(issued, 20);
  EXPECT_DOUBLE_EQ(each, (one.device.now() - before) / 20);
}

}  // namespace
}  // namespace frugal::bench
