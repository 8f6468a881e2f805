#include "engine/comm/modelled.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernels/cpu/device.h"
#include "kernels/virtual/device.h"

namespace frugal::engine {
namespace {

class ModelledOnVirtualDevice : public ::testing::Test {
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
  double communication() { return device.record(device.stream(streams::tensors)).time; }
};

TEST_F(ModelledOnVirtualDevice, ChargesWhatTheCostModelSays) {
  ModelledCommunicator c(device, costs, 3, costs.group(8));
  EXPECT_EQ(c.rank(), 3);
  EXPECT_EQ(c.size(), 8);
  EXPECT_FALSE(c.whole());
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
  c.shift(data, data).wait();
  EXPECT_DOUBLE_EQ(communication(), expected += costs.message(true, bytes)) << "both ways at once";
  EXPECT_DOUBLE_EQ(compute(), expected) << "waiting holds the compute stream";
}

TEST_F(ModelledOnVirtualDevice, MessagesBetweenNodesTakeLonger) {
  ModelledCommunicator c(device, costs, 7, costs.group(16));
  c.send(data, 8).wait();
  EXPECT_DOUBLE_EQ(communication(), launch + costs.message(false, bytes));
}

/// Each ring that leaves a node has one rank there that sends to another node.
TEST_F(ModelledOnVirtualDevice, AShiftTakesAsLongAsItsSlowestMessage) {
  ModelledCommunicator whole_nodes(device, costs, 0, {.size = 16, .per_node = 8});
  whole_nodes.shift(data, data).wait();
  EXPECT_DOUBLE_EQ(communication(), launch + costs.message_between_nodes(1, bytes));
  ModelledCommunicator two_of_a_node(device, costs, 0, {.size = 16, .per_node = 2});
  two_of_a_node.shift(data, data).wait();
  EXPECT_DOUBLE_EQ(communication(), launch + costs.message_between_nodes(1, bytes) +
                                        costs.message_between_nodes(4, bytes));
}

TEST_F(ModelledOnVirtualDevice, StartsWhenItsOperandsAreThere) {
  ModelledCommunicator c(device, costs, 0, costs.group(8));
  device.execute(fill);
  const double ready = compute();
  c.all_reduce(data).wait();
  EXPECT_DOUBLE_EQ(communication(), ready + costs.all_reduce(costs.group(8), bytes));
}

TEST_F(ModelledOnVirtualDevice, OverlapsWithWhatIsComputedBeforeTheWait) {
  ModelledCommunicator c(device, costs, 0, costs.group(8));
  const double alone = costs.duration(fill);
  Pending pending = c.all_reduce(data);
  ASSERT_GT(alone, costs.all_reduce(costs.group(8), bytes));
  device.execute(fill);
  const double end = compute();
  EXPECT_LT(end, 2 * launch + alone + costs.all_reduce(costs.group(8), bytes));
  pending.wait();
  EXPECT_DOUBLE_EQ(compute(), end) << "it had ended before";
}

TEST_F(ModelledOnVirtualDevice, AGroupOfOneIsFree) {
  ModelledCommunicator c(device, costs, 0, costs.group(1));
  c.all_reduce(data).wait();
  c.barrier();
  EXPECT_EQ(device.now(), 0);
}

/// Durations have lower bounds only: the machine may be busy with something else.
class ModelledOnCpu : public ::testing::Test {
 protected:
  ModelledOnCpu() {
    machine.collective_latency = latency;
    std::fill(data.begin(), data.end(), NAN);
    std::iota(shard.begin(), shard.end(), 1);
  }
  static constexpr double latency = 5e-3;
  static constexpr int ranks = 4, own = 2;
  static constexpr int64_t count = 100;

  template <class T>
  static View view(std::vector<T>& values) {
    return {values.data(), dtype_of<T>, {static_cast<int64_t>(values.size())}};
  }
  std::vector<float> part(const std::vector<float>& all, int64_t j) {
    return {all.begin() + j * count, all.begin() + (j + 1) * count};
  }

  Machine machine = find_machine("a100-selene");
  CpuDevice device{1};
  ModelledCommunicator make(int rank = own, int size = ranks) {
    return {device, CostModel(machine), rank, CostModel(machine).group(size)};
  }
  std::vector<float> data = std::vector<float>(ranks * count);
  std::vector<float> shard = std::vector<float>(count);
};

TEST_F(ModelledOnCpu, GathersItsOwnShard) {
  auto c = make();
  c.all_gather(view(shard), view(data)).wait();
  for (int j = 0; j < ranks; ++j) EXPECT_EQ(part(data, j), shard) << j;
}

TEST_F(ModelledOnCpu, ScattersItsOwnPartAndReducesToItself) {
  auto c = make();
  std::iota(data.begin(), data.end(), 0);
  const auto before = data;
  c.reduce_scatter(view(data), view(shard)).wait();
  EXPECT_EQ(shard, part(before, own));
  c.all_reduce(view(data)).wait();
  EXPECT_EQ(data, before);
}

TEST_F(ModelledOnCpu, DefinesWhatOthersWouldSend) {
  auto c = make();
  auto zeros = data;
  std::fill(zeros.begin(), zeros.end(), 0);
  c.broadcast(view(data), own - 1).wait();
  EXPECT_EQ(data, zeros);
  std::iota(data.begin(), data.end(), 0);
  const auto before = data;
  c.broadcast(view(data), own).wait();
  EXPECT_EQ(data, before) << "it is the root";
  std::vector<float> to(data.size());
  c.all_to_all(view(data), view(to)).wait();
  EXPECT_EQ(to, before);
  std::fill(to.begin(), to.end(), 0);
  c.shift(view(data), view(to)).wait();
  EXPECT_EQ(to, before);
  c.send(view(data), 0).wait();
  EXPECT_EQ(data, before);
}

TEST_F(ModelledOnCpu, ReceivesNumbersOfVarianceOne) {
  auto c = make();
  std::vector<float> numbers(4096);
  c.receive(view(numbers), 0).wait();
  double sum = 0, squares = 0;
  for (const float x : numbers) {
    sum += x;
    squares += double{x} * x;
  }
  // Five standard errors of the mean, and of the variance.
  const auto n = static_cast<double>(numbers.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  std::vector<int32_t> integers{1, 2, 3};
  c.receive(view(integers), 0).wait();
  EXPECT_EQ(integers, std::vector<int32_t>(3)) << "which are no numbers to compute with";
}

TEST_F(ModelledOnCpu, MovesIntegersInWords) {
  auto c = make();
  std::vector<int32_t> one{1, -2, 1 << 30}, all(3 * ranks);
  c.all_gather(view(one), view(all)).wait();
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], one[i % 3]);
  std::vector<uint8_t> bytes{1, 2, 3};
  EXPECT_THROW(c.receive(view(bytes), 0).wait(), std::invalid_argument);
}

TEST_F(ModelledOnCpu, CollectivesFollowEachOther) {
  auto c = make();
  const double begin = device.now();
  std::vector<Pending> pending;
  for (int i = 0; i < 3; ++i) pending.push_back(c.all_reduce(view(data)));
  EXPECT_GE(device.record(device.stream(streams::tensors)).time, begin + 3 * latency);
  pending.back().wait();
  EXPECT_GE(device.record(Stream::compute).time, begin + 3 * latency);
  c.barrier();
  EXPECT_GE(device.now(), begin + 4 * latency) << "it waits for the device";
}

TEST_F(ModelledOnCpu, AGroupOfOneNeedsNoMachine) {
  ModelledCommunicator c(device, CostModel(Machine{}), 0, {});
  EXPECT_TRUE(c.whole());
  std::vector<float> to(shard.size());
  c.all_gather(view(shard), view(to)).wait();
  EXPECT_EQ(to, shard);
  c.reduce_scatter(view(shard), view(data).sliced(0, 0, count)).wait();
  EXPECT_EQ(part(data, 0), shard);
  c.send(view(shard), 0).wait();
  c.barrier();
  const double end = device.record(device.stream(streams::tensors)).time;
  EXPECT_LE(end, device.now()) << "nothing is modelled";
}

/// A device with a clock of its own, on which each operation takes a second: the host's, as on a
/// CPU, or its stream's, as on a GPU.
class SlowDevice final : public Device {
 public:
  explicit SlowDevice(bool asynchronous) : asynchronous_(asynchronous) {}
  std::string name() const override { return "slow"; }
  bool backed() const override { return true; }
  void* allocate(int64_t) override { return nullptr; }
  void deallocate(void*, int64_t) noexcept override {}
  void* allocate_on_host(int64_t) override { return nullptr; }
  void deallocate_on_host(void*, int64_t) noexcept override {}
  int64_t reserved() const override { return 0; }
  void run_on(Stream stream, const Operation&) override {
    until(stream) = record(stream).time + 1;
    if (!asynchronous_) clock_ = until(stream);
  }
  void occupy(Stream stream, double seconds, std::string_view) override {
    until(stream) = record(stream).time + seconds;
  }
  Event record(Stream stream) override { return {.time = std::max(until(stream), clock_)}; }
  void wait(Stream stream, const Event& event) override {
    until(stream) = std::max(until(stream), event.time);
  }
  void synchronize() override {
    for (const double moment : until_) clock_ = std::max(clock_, moment);
  }
  double now() override { return clock_; }
  void copy_to_host(void*, const View&) override {}
  void copy_from_host(const View&, const void*) override {}

 private:
  double& until(Stream stream) { return until_[stream.index]; }
  const bool asynchronous_;
  double clock_ = 0;
  std::array<double, most_streams> until_{};
};

/// Returns when what is computed after an all-gather of four copies, which take 4 s, can start.
double after_all_gather(bool asynchronous, double latency, int computed_beside) {
  SlowDevice device(asynchronous);
  Machine machine = find_machine("a100-selene");
  machine.collective_latency = latency;
  machine.link_latency = 0;
  machine.link_bandwidth = 1e30;
  std::vector<float> memory(8);
  const View shard{memory.data(), DType::f32, {1}}, all{memory.data() + 4, DType::f32, {4}};
  ModelledCommunicator c(device, CostModel(machine), 0, CostModel(machine).group(4));
  Pending pending = c.all_gather(shard, all);
  for (int i = 0; i < computed_beside; ++i) device.execute(Fill{shard, 0});
  pending.wait();
  return device.record(Stream::compute).time;
}

TEST(ModelledBesideCopies, TheLongerOfTheTwoCounts) {
  for (const bool asynchronous : {false, true}) {
    EXPECT_NEAR(after_all_gather(asynchronous, 10, 0), 10, 1e-9) << "copies are beside it";
    EXPECT_NEAR(after_all_gather(asynchronous, 10, 3), 10, 1e-9) << "and work that is shorter";
    EXPECT_NEAR(after_all_gather(asynchronous, 10, 12), asynchronous ? 12 : 4 + 12, 1e-9);
    EXPECT_NEAR(after_all_gather(asynchronous, 1, 0), 4, 1e-9) << "copies are waited for";
  }
}

}  // namespace
}  // namespace frugal::engine
