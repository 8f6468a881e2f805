#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/engine/pipeline/serial_pipeline.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

/// Pipelines equal the recursions of pipedream2bw2021, executed serially, bit for bit: W(t + 1) =
/// W(t) − ν · ∇f(version), where the version is W(t) with a flush, W(t − 1) with 2BW (section 3.1),
/// and differs from stage to stage with weight stashing (section 2.2).
namespace frugal::engine {
namespace {

using testing::SerialPipeline;
using testing::small_bert;
using testing::small_gpt;

struct RecursionCase {
  ScheduleKind schedule;
  OptimizerKind optimizer = OptimizerKind::sgd;
  int stages = 1;
  Recompute recompute = Recompute::none;
  DType type = DType::f32;
  int batches_at_once = 5;
  double prediction = 0;
  bool masked = false;  // tokens, whose number differs from batch to batch
};

constexpr int batches = 11;

int version_of(const ScheduleKind& kind, int stages, int stage, int batch) {
  const int late = kind == ScheduleKind::two_buffered              ? 1
                   : kind == ScheduleKind::pipedream               ? stages - 1 - stage
                   : kind == ScheduleKind::pipedream_vertical_sync ? stages - 1
                                                                   : 0;
  return std::max(batch - late, 0);
}

RunConfig config_of(const RecursionCase& c) {
  RunConfig config = c.masked ? small_bert() : small_gpt();
  config.model.layers = 8;
  config.pipeline_parallel = c.stages;
  config.schedule = c.schedule;
  config.recompute = c.recompute;
  config.type = c.type;
  const bool stashing =
      c.schedule == ScheduleKind::pipedream || c.schedule == ScheduleKind::pipedream_vertical_sync;
  config.microbatches = stashing ? 1 : std::max(4, c.stages);
  return config;
}

TrainConfig train_config(const RecursionCase& c) {
  TrainConfig train;
  train.steps = batches;
  OptimizerOptions& options = train.optimizer;
  options.kind = c.optimizer;
  options.learning_rate = c.optimizer == OptimizerKind::sgd ? 0.1 : 3e-3;
  options.clip = 0;
  options.prediction = c.prediction;
  options.weight_decay = 0.01;
  return train;
}

class Recursion : public ::testing::TestWithParam<RecursionCase> {};

TEST_P(Recursion, IsWhatThePipelineComputes) {
  const RecursionCase& c = GetParam();
  const RunConfig config = config_of(c);
  SerialPipeline serial(config, train_config(c), [&](int stage, int batch) {
    return version_of(c.schedule, c.stages, stage, batch);
  });
  std::vector<double> expected, losses;
  std::vector<Batch> all;
  for (int i = 0; i < batches; ++i) {
    all.push_back(random_batch(config, i));
    expected.push_back(serial.step(all.back()));
  }

  const auto cluster = make_cpu_cluster(config, 1, 60);
  Trainer trainer(*cluster, config, train_config(c));
  for (size_t i = 0; i < all.size(); i += static_cast<size_t>(c.batches_at_once)) {
    const size_t end = std::min(all.size(), i + static_cast<size_t>(c.batches_at_once));
    for (const StepResult& result : trainer.run(
             {all.begin() + static_cast<int64_t>(i), all.begin() + static_cast<int64_t>(end)}))
      losses.push_back(result.loss);
  }
  EXPECT_EQ(losses, expected);
  const HostTensors after = trainer.snapshot(all.front().front());
  for (const auto& [name, values] : serial.weights())
    EXPECT_EQ(after.at("weight/" + name).values, values) << name;
}

std::vector<RecursionCase> recursion_cases() {
  std::vector<RecursionCase> cases;
  for (const OptimizerKind optimizer :
       {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam, OptimizerKind::adamw})
    cases.push_back({ScheduleKind::two_buffered, optimizer, 4});
  cases.push_back({ScheduleKind::two_buffered, OptimizerKind::sgd, 1});
  // Continued after a drain, stashing begins again with one version: run in one go.
  for (const auto& kind : {ScheduleKind::pipedream, ScheduleKind::pipedream_vertical_sync})
    for (const auto& [optimizer, stages] :
         {std::pair{OptimizerKind::sgd, 2}, {OptimizerKind::adam, 4}})
      cases.push_back({kind, optimizer, stages, Recompute::none, DType::f32, batches});
  for (const auto& kind :
       {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward, ScheduleKind::inter_layer,
        ScheduleKind::zero_bubble_h1, ScheduleKind::zero_bubble_h2})
    cases.push_back({kind, OptimizerKind::adamw, kind.splits_backward ? 4 : 2});
  for (const auto recompute : {Recompute::full, Recompute::stage})
    cases.push_back({ScheduleKind::two_buffered, OptimizerKind::adam, 4, recompute});
  cases.push_back(
      {ScheduleKind::two_buffered, OptimizerKind::adam, 4, Recompute::none, DType::bf16});
  cases.push_back(
      {ScheduleKind::two_buffered, OptimizerKind::adam, 2, Recompute::none, DType::f64});
  // Times a power of two, so that it is exact and can be computed in any way.
  for (const auto& [optimizer, stages, updates] :
       {std::tuple{OptimizerKind::momentum, 2, 0.5}, {OptimizerKind::adamw, 4, 1.0}})
    cases.push_back({.schedule = ScheduleKind::two_buffered,
                     .optimizer = optimizer,
                     .stages = stages,
                     .prediction = updates});
  // Adam hardly feels a batch's scale: by the gradients themselves.
  for (const ScheduleKind& kind :
       {ScheduleKind::two_buffered, ScheduleKind::pipedream, ScheduleKind::pipedream_vertical_sync,
        ScheduleKind::one_forward_one_backward})
    cases.push_back({.schedule = kind, .stages = 4, .batches_at_once = batches, .masked = true});
  return cases;
}

void PrintTo(const RecursionCase& c, std::ostream* out) {
  std::string name =
      fmt::format("{}_{}_{}_stages_{}_{}{}{}", name_of(c.schedule), name_of(c.optimizer), c.stages,
                  name_of(c.recompute), name_of(c.type), c.prediction > 0 ? "_predicted" : "",
                  c.masked ? "_masked" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  *out << name;
}

FRUGAL_LEFT_OUT(thread, "All/Recursion.*_1_stages*", "one rank: one thread");
FRUGAL_LEFT_OUT(any, "All/Recursion.*_f64", "float64 beside float32");
INSTANTIATE_TEST_SUITE_P(All, Recursion, ::testing::ValuesIn(recursion_cases()),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::engine
