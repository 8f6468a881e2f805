#include "engine/train/step_work.h"

#include <gtest/gtest.h>

#include "engine/train/module_run.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// What a step's operations come to, beside the least that the step needs.
namespace frugal::engine {
namespace {

using testing::small_gemma;
using testing::small_gpt;
using testing::small_llama;

struct Stepped {
  StepWork work;
  double flops = 0;  ///< of the step, all ranks
};

Stepped step(const RunConfig& config, Cluster& cluster) {
  Trainer trainer(cluster, config, {});
  const double flops = trainer.step(random_batch(config, 0)).flops;
  return {trainer.work(), flops};
}
Stepped step(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 2);
  return step(config, *cluster);
}

DeviceWork::Operations of(const StepWork& work, std::string_view name) {
  const auto found = std::ranges::find(DeviceWork::names, name);
  return work.done.operations.at(static_cast<size_t>(found - DeviceWork::names.begin()));
}

double bytes_of(const StepWork& work, std::string_view name) { return of(work, name).cost.bytes; }

TEST(StepWork, HasTheFlopsThatTheRankCounted) {
  for (const RunConfig& config : {small_gpt(), small_llama(), small_gemma()}) {
    const Stepped stepped = step(config);
    EXPECT_GT(stepped.flops, 0);
    EXPECT_EQ(stepped.work.done.total().cost.flops, stepped.flops);
  }
}

TEST(StepWork, CountsEveryOperationOfAStep) {
  RunConfig config = small_gpt();  // 2 layers, separate attention, one microbatch
  const StepWork work = step(config).work;
  EXPECT_EQ(of(work, "layer-norm").count, 2 * 2 + 1);
  EXPECT_EQ(of(work, "layer-norm-backward").count, 2 * 2 + 1);
  EXPECT_EQ(of(work, "softmax").count, 2);
  EXPECT_EQ(of(work, "adam").count, 1) << "all weights are one block";
  config.microbatches = 3;
  EXPECT_EQ(of(step(config).work, "layer-norm").count, 3 * (2 * 2 + 1));
  EXPECT_EQ(of(step(config).work, "adam").count, 1);
  // x and y are [s · b, h], gamma and beta [h], the statistics [s · b].
  const double tokens = 32 * 2, h = 64;
  EXPECT_EQ(bytes_of(work, "layer-norm"), 5 * 4 * (2 * tokens * h + 2 * h + 2 * tokens));
}

TEST(StepWork, OfAVirtualDeviceIsTheProcessors) {
  RunConfig fused = small_gpt();
  fused.fuse_bias_gradients = true;
  for (RunConfig config : {small_gpt(), small_llama(), fused}) {
    config.microbatches = 4;
    const auto cluster = make_virtual_cluster(config, find_machine("h200-hgx"));
    const StepWork counted = step(config, *cluster).work, executed = step(config).work;
    for (const std::string_view name : DeviceWork::names) {
      EXPECT_EQ(of(counted, name).count, of(executed, name).count) << name;
      EXPECT_EQ(bytes_of(counted, name), bytes_of(executed, name)) << name;
    }
    EXPECT_EQ(counted.least.total(), executed.least.total());
    EXPECT_GE(counted.done.calls.launches, counted.done.total().count);
    EXPECT_EQ(executed.done.calls.launches, 0) << "a processor launches nothing";
  }
}

/// Counted by hand from the shapes: 2 layers of hidden size 64 with a tied table.
TEST(StepWork, SaysTheLeastOfEachKind) {
  RunConfig config = small_gpt();
  const double h = 64, v = 64, tokens = 32 * 2, m = 3;
  const double weights = v * h + 32 * h + 2 * (12 * h * h + 13 * h) + 2 * h;
  config.microbatches = 3;
  const LeastBytes least = step(config).work.least;
  EXPECT_EQ(least.weights, 4 * weights * (2 * m + 1));
  EXPECT_EQ(least.gradients, 4 * weights * 2 * m);
  EXPECT_EQ(least.optimizer, 2 * 8 * weights) << "two moments";
  EXPECT_EQ(least.inputs, m * 2 * 4 * tokens) << "tokens and labels";
  config.microbatches = 1;
  EXPECT_NEAR(step(config).work.least.kept * m, least.kept, 1e-3 * least.kept);
  EXPECT_GT(least.kept, m * 2 * 4 * tokens * (v + 2 * 16 * h)) << "logits and hidden states";
}

TEST(StepWork, ATableThatIsLookedUpIsReadByItsRows) {
  RunConfig config = small_llama();  // with an output layer of its own
  config.model.vocabulary = 1024;
  const double table = 4 * 1024 * 64, rows = 4 * 32 * 2 * 64;
  RunConfig tied = config;
  tied.model.tied = true;
  // Of the untied one's own table: rows, and what the step writes.
  EXPECT_EQ(step(config).work.least.weights - step(tied).work.least.weights, rows + table);
}

TEST(StepWork, NothingDoesWithLess) {
  std::vector<RunConfig> configs = {small_gpt(), small_llama(), small_gemma()};
  RunConfig c = small_gpt();
  c.recompute = Recompute::full;
  configs.push_back(c);
  c.recompute = Recompute::selective;
  c.tensor_parallel = 2;
  c.sequence_parallel = true;
  configs.push_back(c);
  c = small_gpt();
  c.pipeline_parallel = 2;
  c.microbatches = 4;
  configs.push_back(c);
  c = small_llama();
  c.type = DType::bf16;
  c.narrow_logits = c.overwrite_gradients = true;
  c.head_chunks = 2;
  configs.push_back(c);
  for (const RunConfig& config : configs) {
    const StepWork work = step(config).work;
    EXPECT_GT(work.least.kept, 0);
    EXPECT_LT(work.least.total(), work.done.total().cost.bytes);
  }
}

TEST(StepWork, OfSeveralBatchesIsTheirMean) {
  RunConfig config = small_gpt();
  config.pipeline_parallel = 2;
  config.microbatches = 4;
  config.schedule = ScheduleKind::two_buffered;
  const auto cluster = make_virtual_cluster(config, find_machine("h200-hgx"));
  Trainer trainer(*cluster, config, {.optimizer = {.clip = 0}});
  const Batch batch(static_cast<size_t>(config.batch_microbatches()));
  (void)trainer.run(std::vector<Batch>(4, batch));
  EXPECT_EQ(of(trainer.work(), "adam").count, 1 + 1) << "a tied table is updated by itself";
  EXPECT_EQ(of(trainer.work(), "layer-norm").count, 4 * (1 * 2 + 1)) << "the last stage's";
  EXPECT_EQ(trainer.work().stage, 1);
}

TEST(StepWork, OfAModuleIsItsTwoPasses) {
  RunConfig config = small_gpt();
  const auto cluster = make_cpu_cluster(config, 2);
  const ModuleMemory memory = ModuleRun(*cluster, Module::layer).memory();
  EXPECT_EQ(memory.work.done.total().cost.flops, memory.forward_flops + memory.backward_flops);
  EXPECT_EQ(of(memory.work, "layer-norm").count, 2);
  EXPECT_EQ(of(memory.work, "adam").count, 0);
  const double h = 64, tokens = 32 * 2, weights = 12 * h * h + 13 * h;
  EXPECT_EQ(memory.work.least.weights, 2 * 4 * weights);
  EXPECT_EQ(memory.work.least.gradients, 4 * weights) << "which nobody reads here";
  EXPECT_EQ(memory.work.least.inputs, 2 * 4 * tokens * h);
  EXPECT_LT(memory.work.least.total(), memory.work.done.total().cost.bytes);
}

}  // namespace
}  // namespace frugal::engine
