#include <gtest/gtest.h>

#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"
#include "tests/main/left_out.h"

namespace frugal::engine {
namespace {

RunConfig two_replicas(DType type, bool narrow) {
  RunConfig c = testing::small_gpt();
  c.data_parallel = 2;
  c.type = type;
  c.narrow_reduction = narrow;
  return c;
}

/// Norms of the gradient that the replicas have summed, over a few steps on random tokens.
std::vector<double> norms(const RunConfig& config) {
  const auto cluster = make_cpu_cluster(config, 2);
  Trainer trainer(*cluster, config, {});
  std::vector<double> all;
  for (int i = 0; i < 3; ++i) all.push_back(trainer.step(random_batch(config, i)).gradient_norm);
  return all;
}

FRUGAL_LEFT_OUT(thread, "NarrowReduction.IsTheSameWhereGradientsAreNoWiderThanWeights",
                "the replicas of RoundsWhatReplicasSum");
TEST(NarrowReduction, IsTheSameWhereGradientsAreNoWiderThanWeights) {
  EXPECT_EQ(norms(two_replicas(DType::f32, true)), norms(two_replicas(DType::f32, false)));
}

TEST(NarrowReduction, RoundsWhatReplicasSum) {
  const std::vector<double> narrow = norms(two_replicas(DType::bf16, true));
  const std::vector<double> wide = norms(two_replicas(DType::bf16, false));
  EXPECT_NE(narrow[0], wide[0]);
  EXPECT_NEAR(narrow[0] / wide[0], 1, 0x1p-8) << "each element is off by that at most";
  RunConfig alone = two_replicas(DType::bf16, true);
  alone.data_parallel = 1;
  RunConfig usual = alone;
  usual.narrow_reduction = false;
  EXPECT_EQ(norms(alone), norms(usual)) << "one replica has nothing to sum";
}

/// Bytes over the link, from the time on a machine without latencies.
double seconds_of_replicas(bool narrow) {
  Machine machine = find_machine("a100-selene");
  machine.collective_latency = machine.link_latency = 1e-30;
  const RunConfig config = two_replicas(DType::bf16, narrow);
  const auto cluster = make_virtual_cluster(config, machine);
  auto& device = dynamic_cast<VirtualDevice&>(cluster->rank(0).device);
  Trainer trainer(*cluster, config, {});
  device.keep_log(true);
  (void)trainer.step(Batch(static_cast<size_t>(config.batch_microbatches())));
  double seconds = 0;
  for (const VirtualDevice::Interval& interval : device.log())
    if (interval.name == "all-reduce") seconds += interval.end - interval.begin;
  return seconds;
}

TEST(NarrowReduction, MovesHalfTheBytes) {
  const double wide = seconds_of_replicas(false);
  EXPECT_GT(wide, 0);
  EXPECT_NEAR(seconds_of_replicas(true) / wide, 0.5, 1e-9);
}

}  // namespace
}  // namespace frugal::engine
