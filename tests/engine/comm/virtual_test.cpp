#include "engine/comm/virtual.h"

#include <gtest/gtest.h>

namespace frugal {
namespace {

class VirtualCommunicatorTest : public testing::Test {
 protected:
  const Machine machine = find_machine("a100-selene");
  VirtualDevice device{machine};
  const CostModel& costs = device.costs();
  const double launch = machine.launch_overhead;
  const View data{nullptr, DType::bf16, {8, 1 << 20}};
  const View shard{nullptr, DType::bf16, {1 << 20}};
  const double bytes = static_cast<double>(data.bytes());
  const Fill fill{View(nullptr, DType::f32, {1 << 28}), 0};

  double compute() { return device.record(Stream::compute).time; }
  double communication() { return device.record(Stream::communication).time; }
};

TEST_F(VirtualCommunicatorTest, ChargesWhatTheCostModelSays) {
  VirtualCommunicator c(device, 3, 8);
  EXPECT_EQ(c.rank(), 3);
  EXPECT_EQ(c.size(), 8);
  const auto group = costs.group(8);
  double expected = launch + costs.all_reduce(group, bytes);
  c.all_reduce(data).wait();
  EXPECT_DOUBLE_EQ(communication(), expected);
  c.all_gather(shard, data).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.all_gather(group, bytes));
  c.reduce_scatter(data, shard).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.reduce_scatter(group, bytes));
  c.all_to_all(data, data).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.all_to_all(group, bytes));
  c.broadcast(data, 0).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.broadcast(group, bytes));
  c.send(data, 1).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.message(true, bytes));
  EXPECT_DOUBLE_EQ(compute(), expected) << "waiting holds the compute stream";
}

TEST_F(VirtualCommunicatorTest, MessagesBetweenNodesTakeLonger) {
  VirtualCommunicator c(device, 7, 16);
  c.send(data, 8).wait();
  EXPECT_DOUBLE_EQ(communication(), launch + costs.message(false, bytes));
}

TEST_F(VirtualCommunicatorTest, StartsWhenItsOperandsAreThere) {
  VirtualCommunicator c(device, 0, 8);
  device.execute(fill);
  const double ready = compute();
  c.all_reduce(data).wait();
  EXPECT_DOUBLE_EQ(communication(), ready + costs.all_reduce(costs.group(8), bytes));
}

TEST_F(VirtualCommunicatorTest, OverlapsWithWhatIsComputedBeforeTheWait) {
  VirtualCommunicator c(device, 0, 8);
  const double alone = costs.duration(fill);
  Pending pending = c.all_reduce(data);
  ASSERT_GT(alone, costs.all_reduce(costs.group(8), bytes));
  device.execute(fill);
  const double end = compute();
  EXPECT_LT(end, 2 * launch + alone + costs.all_reduce(costs.group(8), bytes));
  pending.wait();
  EXPECT_DOUBLE_EQ(compute(), end) << "it had ended before";
}

TEST_F(VirtualCommunicatorTest, AGroupOfOneIsFree) {
  VirtualCommunicator c(device, 0, 1);
  c.all_reduce(data).wait();
  c.barrier();
  EXPECT_EQ(device.now(), 0);
}

TEST_F(VirtualCommunicatorTest, KeepsTheContract) {
  VirtualCommunicator c(device, 0, 8);
  EXPECT_THROW((void)c.all_gather(data, data), std::invalid_argument);
  EXPECT_THROW((void)c.broadcast(data, 8), std::invalid_argument);
}

}  // namespace
}  // namespace frugal
