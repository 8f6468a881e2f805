#include <gtest/gtest.h>

#include "kernels/virtual/device.h"
#include "kernels/virtual/machine.h"
#include "tests/engine/support.h"

// When activations travel to the host's memory and back, on a machine that is described: beside
// what is computed, each way on a stream of its own.
namespace frugal::engine {
namespace {

/// Layers that compute for longer than a host issues them.
RunConfig large_layers(int64_t layers) {
  RunConfig c = testing::small_llama();
  c.model.layers = layers;
  c.model.hidden = 4096;
  c.model.heads = 32;
  c.model.kv_heads = 8;
  c.model.intermediate = 14336;
  c.model.sequence = 4096;
  c.type = DType::bf16;
  c.offload_modules = {LayerModule::residual, LayerModule::mlp};
  return c;
}

/// Bytes of two norms' inputs, 4 s b h; gate and up, and what is between them and down, 6 s b I.
constexpr int tensors_of_layer = 4;
int64_t bytes_of_layer(const RunConfig& c) {
  return c.model.sequence * c.micro_batch * (4 * c.model.hidden + 6 * c.model.intermediate);
}

Machine with_link(double bytes_per_second) {
  Machine machine = find_machine("h100-dgx");
  machine.host_bandwidth = bytes_per_second;
  machine.memory_capacity = int64_t{1} << 45;
  return machine;
}

/// Seconds for which one layer occupies the link each way.
double on_link(const RunConfig& c, const Machine& machine) {
  return tensors_of_layer * machine.kernel_latency +
         static_cast<double>(bytes_of_layer(c)) / (machine.host_bandwidth * machine.host_fraction);
}

double seconds_of(RunConfig c, const Machine& machine, bool offload) {
  c.offload = offload;
  if (!offload) c.offload_modules = RunConfig::inputs, c.offload_layers = 0;
  const auto cluster = make_virtual_cluster(c, machine);
  Trainer trainer(*cluster, c, {});
  return trainer.step(Batch(static_cast<size_t>(c.batch_microbatches()))).seconds;
}

/// The last layer stays, and what the others have travels beside the next one's computation.
TEST(OffloadTime, AFastLinkCostsNothing) {
  const RunConfig c = large_layers(6);
  for (const double link : {1e12, 1e15}) {
    const Machine machine = with_link(link);
    EXPECT_NEAR(seconds_of(c, machine, true), seconds_of(c, machine, false), 1e-12);
  }
}

/// Another microbatch comes between: the last layer's activations go too, and each backward
/// pass begins when they are back.
TEST(OffloadTime, AFastLinksTimeIsSeenAtTheBeginningOfABackwardPass) {
  RunConfig c = large_layers(6);
  c.schedule = ScheduleKind::gpipe;
  c.microbatches = 3;
  const Machine machine = with_link(1e12);
  EXPECT_NEAR(seconds_of(c, machine, true) - seconds_of(c, machine, false), 3 * on_link(c, machine),
              1e-12);
  c.offload_layers = c.model.layers - 1;  // the last one stays
  EXPECT_NEAR(seconds_of(c, machine, true), seconds_of(c, machine, false), 1e-12);
}

/// Tensors of L − 1 layers go there and come back, and computation is what waits.
TEST(OffloadTime, ASlowLinkBoundsTheStep) {
  const RunConfig c = large_layers(6);
  const auto times = static_cast<double>(2 * (c.model.layers - 1));
  const Machine slow = with_link(2e9), slower = with_link(1e9);
  const double bound = times * on_link(c, slower);
  const double seconds = seconds_of(c, slower, true);
  EXPECT_GT(seconds, bound);
  EXPECT_LT(seconds, bound + seconds_of(c, slower, false));
  EXPECT_NEAR(seconds - seconds_of(c, slow, true), bound - times * on_link(c, slow), 1e-12 * bound);
}

/// Intervals in which a stream was busy.
using Intervals = std::vector<VirtualDevice::Interval>;
Intervals intervals_of(const VirtualDevice& device, std::string_view stream) {
  Intervals all;
  for (const VirtualDevice::Interval& interval : device.log())
    if (interval.stream == stream) all.push_back(interval);
  return all;
}

/// Seconds during which both are busy.
double both_busy(const Intervals& some, const Intervals& others) {
  double seconds = 0;
  for (const auto& a : some)
    for (const auto& b : others)
      seconds += std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
  return seconds;
}

/// Stream use of a pipeline whose stages make forward and backward passes by turns: while one
/// microbatch's last layer leaves, another's comes back, each in the time of its own bytes.
TEST(OffloadTime, TheTwoDirectionsDoNotWaitForEachOther) {
  RunConfig c = large_layers(4);
  c.pipeline_parallel = 2;
  c.microbatches = 4;
  c.offload = true;
  const Machine machine = with_link(64e9);
  const auto cluster = make_virtual_cluster(c, machine);
  Trainer trainer(*cluster, c, {});
  auto& device = dynamic_cast<VirtualDevice&>(cluster->rank(0).device);
  device.keep_log(true);
  (void)trainer.step(Batch(4));
  const Intervals there = intervals_of(device, streams::to_host.name),
                  back = intervals_of(device, streams::from_host.name);
  const int64_t layers = c.model.layers / 2;
  ASSERT_EQ(there.size(), back.size());
  EXPECT_EQ(std::ssize(there), tensors_of_layer * layers * 4) << "another microbatch is next";
  double busy = 0;
  for (const auto& interval : there) busy += interval.end - interval.begin;
  EXPECT_NEAR(busy, static_cast<double>(layers * 4) * on_link(c, machine), 1e-9);
  EXPECT_GT(both_busy(there, back), 0);
}

}  // namespace
}  // namespace frugal::engine
