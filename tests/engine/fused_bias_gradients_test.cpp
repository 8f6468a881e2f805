#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tests/engine/support.h"
#include "tests/main/left_out.h"

// Biases' gradients from the products that make those of their weights are the ones that are summed
// by themselves, and take no pass over the outputs' gradients.
namespace frugal::engine {
namespace {

using testing::small_gpt;
using testing::worst_error;

/// Model without dropout, which sums on its way.
RunConfig dropless_gpt() {
  RunConfig c = small_gpt();
  c.type = DType::f64;
  c.model.dropout = 0;
  return c;
}

FRUGAL_LEFT_OUT(thread, "FusedBiasGradients.*",
                "ranks whose threads do what those of ParallelEqualsSerial and PipelineOracle do");
/// The combinations draw how a run is divided.
TEST(FusedBiasGradients, AreThoseThatAreSummedByThemselves) {
  RunConfig fused = dropless_gpt();
  const MicroBatch batch = random_batch(fused, 0)[0];
  const HostTensors expected = testing::snapshot_of(fused, batch);
  fused.fuse_bias_gradients = true;
  const auto worst = worst_error(testing::snapshot_of(fused, batch), expected);
  EXPECT_LT(worst.value, 1e-12) << worst.tensor;
}

DeviceWork work_of(RunConfig config, bool fuse) {
  config.fuse_bias_gradients = fuse;
  const auto cluster = make_cpu_cluster(config, 1);
  Trainer trainer(*cluster, config, {});
  (void)trainer.step(random_batch(config, 0));
  return trainer.work().done;
}

double count_of(const DeviceWork& work, std::string_view name) {
  const auto found = std::ranges::find(DeviceWork::names, name);
  return work.operations.at(static_cast<size_t>(found - DeviceWork::names.begin())).count;
}

/// Counts of 2 layers with 4 biases each: of queries, keys and values, and of the MLP's inner side;
/// of attention's output and of the MLP's, which a dropout sums, or of which a rank has a shard's
/// part. Positions are summed as a bias of the embedding's dropout.
TEST(FusedBiasGradients, TakeNoPassOverTheirOutputsGradients) {
  const auto expect = [](const RunConfig& config, double fused, double dropped) {
    const DeviceWork work = work_of(config, true);
    EXPECT_EQ(count_of(work, "gemm-bias-gradient"), fused);
    EXPECT_EQ(count_of(work, "bias-dropout-add-backward"), dropped);
    EXPECT_EQ(count_of(work, "column-sum"), 0);
  };
  RunConfig config = dropless_gpt();
  expect(config, 8, 1);
  EXPECT_EQ(count_of(work_of(config, false), "gemm-bias-gradient"), 0);
  config.model.dropout = 0.1;
  expect(config, 4, 5);
  // Bytes, of 64 tokens and a hidden size of 64 in float64: 3 and 4 hidden sizes wide.
  const double read = 2 * 64 * (3 + 4) * 64 * 8;
  EXPECT_EQ(work_of(config, false).total().cost.bytes - work_of(config, true).total().cost.bytes,
            read);
  EXPECT_EQ(work_of(config, false).total().cost.flops, work_of(config, true).total().cost.flops);
  config.model.dropout = 0;
  config.tensor_parallel = 2;
  config.sequence_parallel = true;
  expect(config, 4, 5);
}

}  // namespace
}  // namespace frugal::engine
