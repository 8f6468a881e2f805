#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/plan/support.h"

/// Settings of a run besides how it is divided and ordered: predictions against execution.
namespace frugal::engine {
namespace {

using testing::flush;
using testing::planned_gpt;

struct Setting {
  const char* name;
  std::function<void(RunConfig&)> set;
  double within = 0.001;  // what the time may be off by
};
void PrintTo(const Setting& s, std::ostream* out) { *out << s.name; }

/// Run of 16 layers, on two stages if nothing else is said.
RunConfig config_of(const Setting& setting) {
  RunConfig run = planned_gpt(16, 2048, 16);
  run.model.dropout = 0;
  run.model.tied = false;
  run.attention = AttentionKind::fused;
  run.type = DType::bf16;
  run.schedule = flush;
  run.pipeline_parallel = 2;
  run.micro_batch = 2;
  run.microbatches = 8;
  setting.set(run);
  run.validate();
  return run;
}

class PredictedSetting : public ::testing::TestWithParam<Setting> {};

TEST_P(PredictedSetting, TakesWhatABatchTakes) {
  testing::expect_predicted(config_of(GetParam()), find_machine("h100-dgx"), GetParam().within);
}

INSTANTIATE_TEST_SUITE_P(
    All, PredictedSetting,
    ::testing::Values(
        Setting{"mini_sequences",
                [](RunConfig& run) {
                  run.mlp_chunks = 4;
                  run.head_chunks = 8;
                }},
        Setting{"by_rule",
                [](RunConfig& run) { run.mlp_chunks = run.head_chunks = RunConfig::by_rule; }},
        Setting{"head_tiles", [](RunConfig& run) { run.head_tiles = 8; }},
        Setting{"narrow_logits", [](RunConfig& run) { run.narrow_logits = true; }},
        Setting{"pure", [](RunConfig& run) { run.precision = Precision::pure; }},
        Setting{"group",
                [](RunConfig& run) {
                  run.recompute = Recompute::full;
                  run.recompute_group = 4;
                }},
        Setting{"offload_optimizer", [](RunConfig& run) { run.offload_optimizer = true; }},
        Setting{"ulysses_in_a_ring",
                [](RunConfig& run) {
                  run.context_parallel = 4;
                  run.context = ContextKind::zigzag;
                  run.ulysses_size = 2;
                }}),
    ::testing::PrintToStringParamName());

/// Replicas of a divided part sum it in the last backward pass alone.
Setting hybrid(const char* name, Shard shard, int stages, double within = 0.001) {
  const auto set = [=](RunConfig& run) {
    run.pipeline_parallel = stages;
    run.data_parallel = 4;
    run.shard = shard;
    run.shard_size = 2;
  };
  return {name, set, within};
}
INSTANTIATE_TEST_SUITE_P(
    Hybrid, PredictedSetting,
    ::testing::Values(hybrid("optimizer", Shard::optimizer, 2),
                      hybrid("gradients", Shard::gradients, 1),
                      // The next stage waits for that pass, and the sums count when it has ended.
                      hybrid("weights", Shard::weights, 2, 0.02)),
    ::testing::PrintToStringParamName());

Setting offloading(
    const char* name, LayerModules modules,
    std::function<void(RunConfig&)> set = [](RunConfig&) {}) {
  const auto offload = [modules, set = std::move(set)](RunConfig& run) {
    run.offload = true;
    run.offload_modules = modules;
    set(run);
  };
  return {name, offload, 0.002};
}
constexpr LayerModule residual = LayerModule::residual, mlp = LayerModule::mlp;
INSTANTIATE_TEST_SUITE_P(
    Offload, PredictedSetting,
    ::testing::Values(
        offloading("inputs", RunConfig::inputs,
                   [](RunConfig& run) { run.recompute = Recompute::full; }),
        offloading("residual", {residual}), offloading("mlp", {mlp}),
        offloading("of_three_layers", {mlp}, [](RunConfig& run) { run.offload_layers = 3; }),
        offloading("one_stage", {residual}, [](RunConfig& run) { run.pipeline_parallel = 1; }),
        offloading("four_stages", {residual, LayerModule::norm},
                   [](RunConfig& run) {
                     run.tensor_parallel = 2;
                     run.sequence_parallel = true;
                     run.pipeline_parallel = 4;
                   }),
        offloading("zb_v", {residual},
                   [](RunConfig& run) {
                     run.schedule = ScheduleKind::zero_bubble_v;
                     run.chunks = 2;
                   }),
        // The link is slower than what computes.
        offloading("all_of_gpipe", LayerModules::every(),
                   [](RunConfig& run) { run.schedule = ScheduleKind::gpipe; }),
        offloading("all_of_chunks", LayerModules::every(),
                   [](RunConfig& run) {
                     run.schedule = ScheduleKind::interleaved_zero_bubble;
                     run.chunks = 4;
                   }),
        offloading("together", {residual},
                   [](RunConfig& run) {
                     run.tensor_parallel = 2;
                     run.sequence_parallel = true;
                     run.schedule = ScheduleKind::dual_pipe_v;
                     run.chunks = 2;
                   }),
        offloading("interleaved", {residual},
                   [](RunConfig& run) {
                     run.schedule = ScheduleKind::interleaved;
                     run.chunks = 2;
                   })),
    ::testing::PrintToStringParamName());

}  // namespace
}  // namespace frugal::engine
