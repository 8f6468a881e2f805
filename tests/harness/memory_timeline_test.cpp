#include "harness/measure/runs/memory_timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/train/trainer.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

using nlohmann::json;

struct Recorded {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Trainer> trainer;  // holds the memory that is in use
  json document;
  std::vector<Span> spans;  // in seconds of the document
};

/// Two steps, of which the second is traced.
Recorded traced(const RunConfig& config, std::unique_ptr<Cluster> ranks) {
  Recorded run{std::move(ranks), nullptr, {}, {}};
  TraceRecorder recorder(*run.cluster);
  run.trainer =
      std::make_unique<Trainer>(*run.cluster, config, TrainConfig{.optimizer = {.clip = 0}});
  run.trainer->step(random_batch(config, 0));
  recorder.begin(*run.trainer);
  run.trainer->step(random_batch(config, 1));
  recorder.add(*run.trainer);
  Trace trace = recorder.take();
  trace.about = {{"device", "its name"}};
  run.document = json::parse(memory_to_json(trace));
  for (Span span : trace.stages.front().spans) {
    span.begin -= trace.begin;
    run.spans.push_back(span);
  }
  return run;
}

RunConfig offloading() {
  RunConfig config = testing::tiny();
  config.model.layers = 4;
  config.recompute = Recompute::full;
  config.offload = true;
  return config;
}

int64_t in_use(const json& row) {
  int64_t all = 0;
  for (int kind = 0; kind < kind_count; ++kind)
    all += row.at(2 + static_cast<size_t>(kind)).get<int64_t>();
  return all;
}

TEST(MemoryTimeline, HasTheKindsOfTheLedger) {
  const Recorded run = traced(testing::tiny(), make_cpu_cluster(testing::tiny(), 1));
  EXPECT_EQ(run.document.at("schema"), "frugal.memory/1");
  EXPECT_EQ(run.document.at("about").at("device"), "its name");
  json columns = {"time", "phase"};
  for (int kind = 0; kind < kind_count; ++kind) columns.push_back(name_of(static_cast<Kind>(kind)));
  columns.push_back("host");
  EXPECT_EQ(run.document.at("columns"), columns);
}

/// The phase of the last pass or step that has begun by then.
std::string phase_at(double time, const std::vector<Span>& spans) {
  ActionKind last = ActionKind::forward;
  for (const Span& span : spans) {
    const ActionKind kind = span.action.kind;
    const bool computes =
        kind == ActionKind::forward || kind == ActionKind::backward || kind == ActionKind::step;
    if (computes && span.begin <= time) last = kind;
  }
  return last == ActionKind::forward    ? "forward"
         : last == ActionKind::backward ? "backward"
                                        : "step";
}

TEST(MemoryTimeline, IsTheLedgersThroughThePhasesOfAStep) {
  for (const bool real : {false, true}) {
    const RunConfig config = offloading();
    const Recorded run =
        traced(config, real ? make_cpu_cluster(config, 1)
                            : make_virtual_cluster(config, find_machine("a100-selene")));
    const Rank& rank = run.cluster->rank(0);
    const json& rows = run.document.at("stages").at(0).at("rows");
    int64_t most = 0, most_on_host = 0;
    std::vector<std::string> phases;
    double before = 0;
    for (const json& row : rows) {
      most = std::max(most, in_use(row));
      most_on_host = std::max(most_on_host, row.back().get<int64_t>());
      if (phases.empty() || phases.back() != row.at(1)) phases.push_back(row.at(1));
      EXPECT_GE(row.at(0).get<double>(), before);
      before = row.at(0);
      constexpr double rounding = 1e-9;
      EXPECT_TRUE(row.at(1) == phase_at(before - rounding, run.spans) ||
                  row.at(1) == phase_at(before + rounding, run.spans))
          << row;
    }
    EXPECT_EQ(rows.front().at(0), 0.0);
    EXPECT_GT(before, 0);
    EXPECT_EQ(phases, (std::vector<std::string>{"forward", "backward", "step"}));
    EXPECT_EQ(most, rank.ledger.peak());
    EXPECT_EQ(in_use(rows.back()), rank.ledger.current());
    EXPECT_EQ(most_on_host, rank.host.peak());
    EXPECT_GT(most_on_host, 0);
    EXPECT_EQ(rows.back().back(), rank.host.current());
  }
}

}  // namespace
}  // namespace frugal::harness
