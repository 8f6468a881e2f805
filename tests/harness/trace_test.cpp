#include "harness/measure/runs/trace.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/schedule/schedules.h"
#include "engine/schedule/text.h"
#include "engine/train/trainer.h"
#include "harness/measure/runs/as_planned.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;
using ::testing::ElementsAreArray;

RunConfig pipeline(int stages, ScheduleKind schedule, int microbatches) {
  RunConfig config = testing::tiny();
  config.model.layers = 2 * stages;
  config.pipeline_parallel = stages;
  config.schedule = schedule;
  config.microbatches = microbatches;
  return config;
}

/// A recorded run of some batches, with all that is left of it.
struct RecordedTrace {
  RecordedTrace(const RunConfig& configuration, std::unique_ptr<Cluster> ranks,
                const std::vector<int>& batches_of_runs)
      : config(configuration), cluster(std::move(ranks)) {
    TraceRecorder recorder(*cluster);
    TrainConfig train;
    train.optimizer.clip = 0;
    trainer = std::make_unique<Trainer>(*cluster, config, train);
    recorder.begin(*trainer);
    for (const int batches : batches_of_runs) {
      const std::vector<Batch> all(static_cast<size_t>(batches), random_batch(config, 0));
      trainer->run(all);
      recorder.add(*trainer);
    }
    trace = recorder.take();
    trace.about = {{"device", "a \"quoted\" name"}};
    document = json::parse(to_json(trace));
  }

  /// Events of a stage and phase, in their order.
  std::vector<json> events(int stage, const std::string& phase) const {
    std::vector<json> found;
    for (const json& event : document.at("traceEvents"))
      if (event.at("pid") == stage && event.at("ph") == phase) found.push_back(event);
    return found;
  }
  std::vector<json> slices(int stage, int track) const {
    std::vector<json> found;
    for (const json& event : events(stage, "X"))
      if (event.at("tid") == track) found.push_back(event);
    return found;
  }
  std::map<std::string, std::vector<int64_t>> counters(int stage) const {
    std::map<std::string, std::vector<int64_t>> found;
    for (const json& event : events(stage, "C"))
      for (const auto& [series, value] : event.at("args").items())
        found[event.at("name").get<std::string>() + "/" + series].push_back(value);
    return found;
  }

  RunConfig config;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Trainer> trainer;  // holds the memory that is in use
  Trace trace;
  json document;
};

RecordedTrace virtual_run(const RunConfig& config, const std::vector<int>& batches) {
  return {config, make_virtual_cluster(config, find_machine("a100-selene")), batches};
}
RecordedTrace cpu_run(const RunConfig& config, const std::vector<int>& batches) {
  return {config, make_cpu_cluster(config, 2), batches};
}

constexpr int passes = 0, first_stream = 4;

/// In whole nanoseconds, as they are written.
int64_t nanoseconds(const json& event, const char* key) {
  return std::llround(event.at(key).get<double>() * 1000);
}

void expect_well_formed(const RecordedTrace& run) {
  int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
  for (int stage = 0; stage < run.config.pipeline_parallel; ++stage) {
    std::map<int, std::string> tracks;
    for (const json& event : run.events(stage, "M"))
      if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    EXPECT_TRUE(tracks.contains(passes));
    std::map<int, int64_t> end;  // of each track's slices so far
    for (const json& slice : run.events(stage, "X")) {
      const int track = slice.at("tid");
      EXPECT_TRUE(tracks.contains(track)) << slice;
      EXPECT_FALSE(slice.at("name").get<std::string>().empty());
      EXPECT_GE(nanoseconds(slice, "ts"), end[track]) << slice;
      EXPECT_GE(nanoseconds(slice, "dur"), 0) << slice;
      end[track] = nanoseconds(slice, "ts") + nanoseconds(slice, "dur");
      first = std::min(first, nanoseconds(slice, "ts"));
      last = std::max(last, end[track]);
    }
    for (const json& counter : run.events(stage, "C")) EXPECT_GE(counter.at("ts"), 0) << counter;
  }
  EXPECT_LT(first, last - first) << "counted from the run's begin, not from the clock's";
}

/// The passes of a stage are the schedule's, with their versions.
void expect_passes(const RecordedTrace& run, int batches) {
  const Schedule schedule =
      make_schedule(run.config.schedule, {.stages = run.config.pipeline_parallel,
                                          .chunks = run.config.chunks,
                                          .microbatches = static_cast<int>(run.config.microbatches),
                                          .batches = batches});
  for (int stage = 0; stage < schedule.stages; ++stage) {
    std::vector<std::string> expected, actual;
    for (const Action& action : schedule.actions[static_cast<size_t>(stage)])
      if (!is_message(action.kind)) expected.push_back(to_text(action, schedule.chunks));
    int steps = 0;
    for (const json& slice : run.slices(stage, passes)) {
      actual.push_back(slice.at("name").get<std::string>() + "@" +
                       slice.at("args").at("version").dump());
      if (!slice.at("args").contains("microbatch")) {
        EXPECT_EQ(slice.at("args").at("batch"), steps++) << slice;
      }
    }
    EXPECT_EQ(steps, batches) << "stage " << stage;
    EXPECT_THAT(actual, ElementsAreArray(expected)) << "stage " << stage;
  }
}

void expect_ledgers_memory(const RecordedTrace& run) {
  for (int stage = 0; stage < run.config.pipeline_parallel; ++stage) {
    const Ledger& ledger = run.cluster->rank(stage).ledger;
    auto counters = run.counters(stage);
    for (int kind = 0; kind < kind_count; ++kind) {
      const auto k = static_cast<Kind>(kind);
      EXPECT_EQ(counters.at("memory/" + std::string(name_of(k))).back(), ledger.current(k));
    }
    const auto& in_use = counters.at("memory in use/bytes");
    EXPECT_EQ(in_use.back(), ledger.current());
    EXPECT_EQ(*std::max_element(in_use.begin(), in_use.end()), ledger.peak());
  }
}

/// Each message leaves within its own slice, before the pass that takes it begins, whose slice it
/// reaches.
void expect_arrows(const RecordedTrace& run) {
  std::map<int, json> from;
  size_t sends = 0, ends = 0;
  for (int stage = 0; stage < run.config.pipeline_parallel; ++stage) {
    for (const json& event : run.events(stage, "s")) from[event.at("id")] = event;
    sends += run.slices(stage, 2).size() + run.slices(stage, 3).size();
  }
  EXPECT_EQ(from.size(), sends);
  std::map<std::pair<int, int>, std::vector<json>> tracks;
  const auto slice_at = [&](const json& event) {
    const int stage = event.at("pid"), track = event.at("tid");
    auto& slices = tracks[{stage, track}];
    if (slices.empty()) slices = run.slices(stage, track);
    for (const json& slice : slices) {
      const int64_t into = nanoseconds(event, "ts") - nanoseconds(slice, "ts");
      if (into >= 0 && into < nanoseconds(slice, "dur")) return slice;
    }
    ADD_FAILURE() << "no slice at " << event;
    return json();
  };
  for (int stage = 0; stage < run.config.pipeline_parallel; ++stage)
    for (const json& event : run.events(stage, "f")) {
      ++ends;
      const json& begin = from.at(event.at("id"));
      EXPECT_LE(nanoseconds(begin, "ts"), nanoseconds(event, "ts"));
      const json send = slice_at(begin), pass = slice_at(event);
      EXPECT_EQ(send.at("name").get<std::string>()[0], pass.at("name").get<std::string>()[0]);
      EXPECT_EQ(send.at("args").at("microbatch"), pass.at("args").at("microbatch"));
      EXPECT_NE(begin.at("pid"), event.at("pid"));
    }
  EXPECT_EQ(ends, sends);
}

TEST(Trace, OfTwoBufferedWeightsOnAVirtualMachine) {
  RunConfig config = pipeline(4, ScheduleKind::two_buffered, 4);
  config.tensor_parallel = 2;
  const RecordedTrace run = virtual_run(config, {3, 2});
  expect_well_formed(run);
  expect_passes(virtual_run(config, {5}), 5);
  expect_ledgers_memory(run);
  expect_arrows(run);
  for (int stage = 0; stage < 4; ++stage) {
    const auto alive = run.counters(stage).at("weight versions/alive");
    EXPECT_EQ(*std::max_element(alive.begin(), alive.end()), 2);
    EXPECT_EQ(alive.front(), 1);
  }
  EXPECT_EQ(run.document.at("otherData").at("device"), "a \"quoted\" name");
}

TEST(Trace, HasTheStreamsOfAVirtualDevice) {
  RunConfig config = pipeline(2, ScheduleKind::one_forward_one_backward, 2);
  config.tensor_parallel = 2;
  const RecordedTrace run = virtual_run(config, {1});
  for (int stage = 0; stage < 2; ++stage) {
    const auto collectives = run.slices(stage, first_stream + 1);
    EXPECT_TRUE(std::any_of(collectives.begin(), collectives.end(),
                            [](const json& slice) { return slice.at("name") == "all-reduce"; }));
    int64_t computed = 0, in_passes = 0;
    for (const json& slice : run.slices(stage, first_stream)) computed += nanoseconds(slice, "dur");
    for (const json& slice : run.slices(stage, passes)) in_passes += nanoseconds(slice, "dur");
    EXPECT_GT(computed, 0);
    EXPECT_GT(in_passes, computed / 2);
  }
}

/// Replicas sum on a track of their own, beside the backward pass where they are to.
TEST(Trace, ShowsSumsBesideTheBackwardPass) {
  constexpr int replicas = first_stream + 3;
  RunConfig config = pipeline(1, ScheduleKind::one_forward_one_backward, 2);
  config.data_parallel = 2;
  for (const bool overlapped : {false, true}) {
    config.overlap_grad_reduce = overlapped;
    config.bucket_size = overlapped ? 1 : 0;
    const RecordedTrace run = virtual_run(config, {1});
    expect_well_formed(run);
    json last;
    for (const json& slice : run.slices(0, passes))
      if (slice.at("name") == "B1") last = slice;
    const int64_t end = nanoseconds(last, "ts") + nanoseconds(last, "dur");
    const auto sums = run.slices(0, replicas);
    ASSERT_FALSE(sums.empty());
    EXPECT_EQ(sums.front().at("name"), "all-reduce");
    EXPECT_GE(nanoseconds(sums.front(), "ts"), nanoseconds(last, "ts"));
    EXPECT_EQ(nanoseconds(sums.front(), "ts") < end, overlapped);
  }
}

TEST(Trace, OfInterleavedChunks) {
  RunConfig config = pipeline(2, ScheduleKind::interleaved, 4);
  config.chunks = 2;
  const RecordedTrace run = virtual_run(config, {1});
  expect_well_formed(run);
  expect_passes(run, 1);
  expect_arrows(run);
}

TEST(Trace, OfRealRanks) {
  const RunConfig config = pipeline(2, ScheduleKind::one_forward_one_backward, 3);
  const RecordedTrace run = cpu_run(config, {1, 1});
  expect_well_formed(run);
  expect_passes(cpu_run(config, {2}), 2);
  expect_ledgers_memory(run);
  expect_arrows(run);
  EXPECT_TRUE(run.slices(0, first_stream).empty());
}

TEST(AsPlanned, IsTheTimelineOfEqualStages) {
  for (const ScheduleKind& kind : {ScheduleKind::gpipe, ScheduleKind::two_buffered}) {
    const Schedule schedule =
        make_schedule(kind, {.stages = 3, .microbatches = 4, .first_batch = 2, .batches = 3});
    Timeline done = simulate(schedule, {.forward = 3, .backward = 5, .activation = 0.5, .step = 1});
    done.unit = "s";
    for (const Timeline& planned :
         {as_planned(kind, done), as_planned(moved_to(schedule, 0), done)}) {
      EXPECT_EQ(planned.unit, "s");
      ASSERT_EQ(planned.stages.size(), done.stages.size());
      for (size_t stage = 0; stage < done.stages.size(); ++stage) {
        ASSERT_EQ(planned.stages[stage].size(), done.stages[stage].size());
        for (size_t i = 0; i < done.stages[stage].size(); ++i) {
          EXPECT_EQ(planned.stages[stage][i].action, done.stages[stage][i].action);
          EXPECT_DOUBLE_EQ(planned.stages[stage][i].begin, done.stages[stage][i].begin);
          EXPECT_DOUBLE_EQ(planned.stages[stage][i].end, done.stages[stage][i].end);
        }
      }
    }
  }
}

TEST(AsPlanned, WaitingInAStepIsIdle) {
  const auto step = [](int version, double begin, double end) {
    return Span{{.kind = ActionKind::step, .version = version}, begin, end};
  };
  const Timeline together = with_steps_begun_together(
      {.title = "",
       .unit = "s",
       .chunks = 1,
       .microbatches = 1,
       .stages = {{step(1, 4, 6), step(2, 9, 13)}, {step(1, 2, 7), step(2, 11, 12)}}});
  const std::vector<std::vector<double>> begins = {{4, 11}, {4, 11}};
  for (size_t stage = 0; stage < 2; ++stage)
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(together.stages[stage][i].begin, begins[stage][i]) << stage << " " << i;
}

TEST(AsPlanned, TakesMedians) {
  Timeline timeline{.title = "", .unit = "s", .chunks = 2, .microbatches = 1, .stages = {{}}};
  double begin = 0;
  for (const double seconds : {1.0, 2.0, 9.0}) {
    timeline.stages[0].push_back({{.kind = ActionKind::forward}, begin, begin + seconds});
    begin += seconds;
  }
  const Durations durations = median_durations(timeline);
  EXPECT_DOUBLE_EQ(durations.forward, 4);  // of both chunks
  EXPECT_EQ(durations.backward, 0);
}

}  // namespace
}  // namespace frugal::harness
