#include <gmock/gmock.h>

#include <algorithm>

#include "engine/cluster/rank_grid.h"
#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// Groups of different axes do not wait for each other's collectives.
namespace frugal::engine {
namespace {

using Intervals = std::vector<VirtualDevice::Interval>;

/// Log of a step with weights that two replicas divide and two ranks of each, over a link so slow
/// that gathering a layer's weights takes longer than computing one.
Intervals log_of_a_step(Machine machine) {
  machine.collective_latency = machine.link_latency = machine.launch_overhead = 1e-30;
  machine.network_latency = 1e-30;
  RunConfig c = testing::small_llama();
  c.model.layers = 4;
  c.tensor_parallel = c.data_parallel = 2;
  c.shard = Shard::weights;
  const auto cluster = make_virtual_cluster(c, machine);
  auto& device = dynamic_cast<VirtualDevice&>(cluster->rank(0).device);
  Trainer trainer(*cluster, c, {});
  device.keep_log(true);
  (void)trainer.step(Batch(static_cast<size_t>(c.batch_microbatches())));
  return device.log();
}

Intervals of(const Intervals& log, std::string_view stream) {
  Intervals all;
  for (const auto& interval : log)
    if (interval.stream == stream) all.push_back(interval);
  return all;
}

Machine slow_network() {
  Machine machine = find_machine("a100-selene");
  machine.devices_per_node = 2;
  machine.network_bandwidth /= 1000;
  return machine;
}

/// A tensor-parallel sum begins when what was computed before it and the sum before it have ended,
/// though weights are being gathered then.
TEST(Streams, TensorSumsDoNotQueueBehindWeights) {
  const Intervals log = log_of_a_step(slow_network());
  const Intervals computed = of(log, "compute"), gathers = of(log, streams::replicas.name);
  int beside = 0;
  double before = 0, passes_end = 0;
  for (const auto& operation : computed)
    if (operation.name == "embedding-backward") passes_end = operation.end;
  for (const auto& sum : of(log, streams::tensors.name)) {
    if (sum.begin > passes_end) continue;  // the norm's is of what replicas have summed
    double ready = std::exchange(before, sum.end);
    for (const auto& operation : computed)
      if (operation.end <= sum.begin * (1 + 1e-12)) ready = std::max(ready, operation.end);
    EXPECT_NEAR(sum.begin, ready, 1e-9 * sum.begin) << sum.name;
    const auto around = [&](const auto& gather) {
      return gather.name == "all-gather" && gather.begin < sum.begin && sum.end < gather.end;
    };
    if (std::ranges::any_of(gathers, around)) ++beside;
  }
  EXPECT_GT(beside, 0);
}

/// Replicas of a node share its links with tensor parallelism, those of other nodes do not.
TEST(Streams, GroupsOfANodeShareItsLinks) {
  const auto longest = [](const Intervals& log) {
    double seconds = 0;
    for (const auto& sum : of(log, streams::tensors.name))
      if (sum.name == "all-reduce") seconds = std::max(seconds, sum.end - sum.begin);
    return seconds;
  };
  Machine one_node = slow_network();
  one_node.collective_share = one_node.compute_share = 0;
  one_node.link_bandwidth /= 1000;
  Machine two_nodes = one_node;
  one_node.devices_per_node = 4;
  EXPECT_GT(longest(log_of_a_step(one_node)), 1.5 * longest(log_of_a_step(two_nodes)));
}

}  // namespace
}  // namespace frugal::engine
