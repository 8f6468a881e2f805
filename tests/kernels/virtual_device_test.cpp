#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "kernels/support/error.h"
#include "kernels/virtual/device.h"

namespace frugal::kernels {
namespace {

using namespace ::testing;

constexpr StreamSpec communication{"communication", StreamUse::collectives},
    replicas{"replicas", StreamUse::collectives};

class VirtualDeviceTest : public ::testing::Test {
 protected:
  const Machine machine = find_machine("a100-selene");
  VirtualDevice device{machine};
  const double launch = machine.launch_overhead;
  const View big{nullptr, DType::f32, {1 << 28}};
  const Fill fill{big, 0};
  const double seconds = device.costs().duration(fill);
};

TEST_F(VirtualDeviceTest, MemoryIsCountedToTheByte) {
  EXPECT_FALSE(device.backed());
  EXPECT_EQ(device.name(), "virtual:a100-selene");
  EXPECT_EQ(device.allocate(machine.memory_capacity - 10), nullptr);
  EXPECT_EQ(device.allocate(10), nullptr);
  EXPECT_EQ(device.bytes_in_use(), machine.memory_capacity);
  device.deallocate(nullptr, 10);
  EXPECT_THAT([&] { device.allocate(17); },
              Throws<OutOfMemory>(AllOf(Property(&OutOfMemory::missing, 7),
                                        Field(&OutOfMemory::capacity, machine.memory_capacity))));
  EXPECT_EQ(device.bytes_in_use(), machine.memory_capacity - 10) << "a refusal takes nothing";
}

TEST_F(VirtualDeviceTest, HasItsPartOfTheHostsMemory) {
  VirtualDevice one_of_four(machine, {}, 4);
  const int64_t part = machine.host_memory / 4;
  EXPECT_EQ(one_of_four.allocate_on_host(part), nullptr);
  EXPECT_EQ(one_of_four.bytes_in_use(), 0);
  EXPECT_THROW(one_of_four.allocate_on_host(1), OutOfMemory);
  one_of_four.deallocate_on_host(nullptr, 1);
  EXPECT_EQ(one_of_four.allocate_on_host(1), nullptr);
  EXPECT_EQ(device.allocate_on_host(machine.host_memory), nullptr);
}

TEST_F(VirtualDeviceTest, ACommunicatorHasBuffersWhereTheProgramHasItSo) {
  Machine with_buffers = machine;
  with_buffers.communicator_memory = 1000;
  for (const bool buffers : {false, true})
    for (const int devices : {1, 8}) {
      VirtualDevice other(with_buffers, {.communicator_buffers = buffers}, devices);
      const int64_t left = machine.memory_capacity - (buffers && devices > 1 ? 1000 : 0);
      EXPECT_EQ(other.allocate(left), nullptr);
      EXPECT_THROW(other.allocate(1), OutOfMemory);
      EXPECT_EQ(other.reserved(), left) << "what is reserved does not count them";
    }
}

TEST_F(VirtualDeviceTest, OperationsOfOneStreamFollowEachOther) {
  device.execute(fill);
  EXPECT_DOUBLE_EQ(device.now(), launch + seconds);
  device.execute(fill);  // issued while the first one runs
  EXPECT_DOUBLE_EQ(device.now(), launch + 2 * seconds);
}

TEST_F(VirtualDeviceTest, SmallOperationsAreBoundByTheHost) {
  const Fill tiny{View(nullptr, DType::f32, {1}), 0};
  for (int i = 0; i < 100; ++i) device.execute(tiny);
  EXPECT_NEAR(device.now(), 100 * launch + device.costs().duration(tiny), 1e-12);
}

TEST_F(VirtualDeviceTest, StreamsOverlapAndEventsOrderThem) {
  device.occupy(device.stream(communication), 1, "first");
  device.occupy(Stream::copy, 1, "second");
  EXPECT_NEAR(device.now(), 1 + 2 * launch, 1e-12);
  device.wait(Stream::copy, device.record(device.stream(communication)));
  EXPECT_NEAR(device.record(Stream::copy).time, 1 + 2 * launch, 1e-12) << "that was over already";
  device.occupy(device.stream(communication), 1, "third");
  device.wait(Stream::copy, device.record(device.stream(communication)));
  device.occupy(Stream::copy, 1, "fourth");
  EXPECT_NEAR(device.now(), 3 + launch, 1e-9);
}

TEST_F(VirtualDeviceTest, SynchronizeHoldsTheHost) {
  device.execute(fill);
  device.synchronize();
  const double before = device.now();
  device.execute(fill);
  EXPECT_DOUBLE_EQ(device.now(), before + launch + seconds);
}

TEST_F(VirtualDeviceTest, CollectivesTakeAShareFromWhatRunsBesideThem) {
  const double speed = 1 - machine.collective_share;
  device.occupy(device.stream(communication), 1, "all-reduce");  // longer than the operation
  device.execute(fill);
  EXPECT_NEAR(device.record(Stream::compute).time, 2 * launch + seconds / speed, 1e-12);

  Machine undisturbed = machine;
  undisturbed.compute_share = 0;
  VirtualDevice other(undisturbed);
  other.occupy(other.stream(communication), seconds / 2, "all-reduce");  // shorter
  other.execute(fill);
  const double shared = seconds / 2 - launch;  // the operation begins one launch later
  EXPECT_NEAR(other.now(), 2 * launch + shared + (seconds - shared * speed), 1e-12);
}

/// Waiting for a collective includes what computation has delayed it by.
TEST_F(VirtualDeviceTest, CollectivesAreSlowerBesideComputation) {
  Machine both = machine;
  both.collective_share = 0.5;
  both.compute_share = 0.25;
  for (const double alone : {0.4, 10.0}) {  // of an operation's time
    VirtualDevice other(both);
    other.keep_log(true);
    other.occupy(other.stream(communication), alone * seconds, "all-reduce");
    const Event end = other.record(other.stream(communication));
    other.execute(fill);
    const double left = alone * seconds - launch;
    const double together = std::min(2 * seconds, left / 0.75);
    EXPECT_NEAR(other.record(Stream::compute).time, 2 * launch + seconds + together / 2, 1e-12);
    other.wait(Stream::copy, end);
    const double late = launch + alone * seconds + together / 4;
    EXPECT_NEAR(other.record(Stream::copy).time, late, 1e-12);
    EXPECT_NEAR(other.log().front().end, late, 1e-12);
    other.occupy(other.stream(communication), seconds, "broadcast");  // behind it
    EXPECT_GE(other.log().back().begin, late);
  }
}

/// Collectives that were over before are not waited for.
TEST_F(VirtualDeviceTest, ADelayIsOfCollectivesThatAreUnderWay) {
  Machine both = machine;
  both.compute_share = 0.5;
  VirtualDevice other(both);
  other.occupy(other.stream(communication), seconds, "first");
  const Event first = other.record(other.stream(communication));
  other.wait(Stream::compute, first);
  other.occupy(other.stream(communication), 10 * seconds, "second");
  other.execute(fill);
  const double done = other.record(Stream::compute).time;
  other.wait(Stream::compute, first);
  EXPECT_EQ(other.record(Stream::compute).time, done);
}

/// A short collective takes twice its time beside a long one of another stream, which it delays by
/// as much as it has of the link; over another link each has its own time.
TEST_F(VirtualDeviceTest, CollectivesOfTwoStreamsShareALink) {
  for (const bool same_link : {false, true}) {
    VirtualDevice other(machine);
    other.keep_log(true);
    if (!same_link) other.cross_nodes(other.stream(replicas));
    other.occupy(other.stream(replicas), 10, "all-gather");
    const Event gathered = other.record(other.stream(replicas));
    other.occupy(other.stream(communication), 2, "all-reduce");
    const double begin = 2 * launch;
    EXPECT_NEAR(other.record(other.stream(communication)).time, begin + (same_link ? 4 : 2), 1e-9);
    other.wait(Stream::compute, gathered);
    EXPECT_NEAR(other.record(Stream::compute).time, launch + 10 + (same_link ? 2 : 0), 1e-9);
    EXPECT_NEAR(other.log().front().end, launch + 10 + (same_link ? 2 : 0), 1e-9);
    VirtualDevice third(machine);
    if (!same_link) third.cross_nodes(third.stream(replicas));
    third.occupy(third.stream(communication), 2, "all-reduce");
    third.occupy(third.stream(replicas), 10, "all-gather");  // longer than what is left
    EXPECT_NEAR(third.record(third.stream(replicas)).time, same_link ? 12 : 10, 3 * launch);
  }
}

/// Computation beside collectives of several streams is slower until the last of them has ended.
TEST_F(VirtualDeviceTest, ComputationIsBesideTheLongestCollective) {
  const double speed = 1 - machine.collective_share;
  device.cross_nodes(device.stream(replicas));
  device.occupy(device.stream(replicas), 1, "all-gather");
  device.occupy(device.stream(communication), seconds / 100, "all-reduce");
  device.execute(fill);
  EXPECT_NEAR(device.record(Stream::compute).time, 3 * launch + seconds / speed, 1e-12);
}

TEST_F(VirtualDeviceTest, LogsWhenAsked) {
  device.execute(fill);
  EXPECT_TRUE(device.log().empty());
  device.keep_log(true);
  device.execute(fill);
  ASSERT_EQ(device.log().size(), 1U);
  EXPECT_EQ(device.log()[0].name, "fill");
  EXPECT_EQ(device.log()[0].stream, "compute");
  EXPECT_DOUBLE_EQ(device.log()[0].end - device.log()[0].begin, seconds);
}

TEST_F(VirtualDeviceTest, PassesHoldTheHostWhereTheProgramHasItSo) {
  for (const bool held : {false, true}) {
    VirtualDevice other(machine, {.host_waits_around_passes = held});
    const auto next = [&] {  // when the host issues something
      other.execute_on(Stream::copy, fill);
      return other.log().back().begin;
    };
    other.keep_log(true);
    other.execute(fill);
    other.begin_pass(false);
    EXPECT_EQ(next() >= other.record(Stream::compute).time, held);
    for (int i = 0; i < 3; ++i) other.execute(fill);
    other.end_pass();
    EXPECT_EQ(next() >= other.record(Stream::compute).time, held);
  }
}

/// TransformerEngine's modules issue products with weights, and where separate attention is one of
/// them its softmax; PyTorch issues its products, other operations, and further kernels of one.
TEST_F(VirtualDeviceTest, OperationsAreIssuedByModulesOrByPyTorch) {
  const View plane{nullptr, DType::f32, {8, 8}}, batch{nullptr, DType::f32, {2, 8, 8}};
  const View row{nullptr, DType::f32, {8}};
  const auto host_seconds = [&](Host host, const Operation& operation, bool attention = false) {
    VirtualDevice other(
        machine,
        {.kernels = {.bias = true}, .host = host, .separate_attention_is_module = attention});
    other.execute(operation);
    return other.work().calls.issue_seconds;
  };
  const auto product = [](const View& of, const View& bias) {
    return Gemm{.a = of, .b = of, .c = of, .bias = bias};
  };
  const double eager = machine.eager_overhead, module = machine.engine_overhead;
  ASSERT_GT(module, eager);
  EXPECT_DOUBLE_EQ(host_seconds(Host::launches, product(plane, {})), launch);
  EXPECT_DOUBLE_EQ(host_seconds(Host::eager, product(plane, {})), eager);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, product(plane, {})), module);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, product(plane, row)), module + eager);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, product(batch, {})), eager);
  const Softmax softmax{.x = batch, .p = batch, .dropout = {}};
  const SoftmaxBackward softmax_backward{.dy = batch, .p = batch, .dx = batch, .dropout = {}};
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, softmax), eager);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, softmax, true), module);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, softmax_backward, true), module);
  EXPECT_DOUBLE_EQ(host_seconds(Host::eager, softmax, true), eager);
  EXPECT_DOUBLE_EQ(host_seconds(Host::transformer_engine, fill), eager);
}

TEST_F(VirtualDeviceTest, AForwardPassWaitsForItsBatchWhereTheProgramHasItSo) {
  for (const bool fetched : {false, true})
    for (const bool forward : {false, true}) {
      VirtualDevice other(machine, {.fetches_batches = fetched});
      other.execute(fill);
      other.begin_pass(forward);
      other.execute(fill);
      const double wait = fetched && forward ? machine.batch_overhead + launch : 0;
      EXPECT_NEAR(other.now(), launch + 2 * seconds + wait, 1e-12);
    }
}

/// Playing does to the clocks what issuing did, wherever they are.
TEST_F(VirtualDeviceTest, PlaysATape) {
  const auto issue = [this](VirtualDevice& to) {
    to.execute(fill);
    const Event early = to.record(Stream::compute);
    to.execute(fill);
    to.wait(to.stream(communication), early);
    to.occupy(to.stream(communication), 4.3 * seconds, "all-reduce");
    to.execute(fill);  // beside it
    to.wait(Stream::compute, to.record(to.stream(communication)));
    to.execute_on(Stream::copy, fill);
    (void)to.allocate(1000);
    to.deallocate(nullptr, 300);
  };
  Replay::Stretch stretch;
  device.replay()->start(stretch);
  issue(device);
  device.replay()->stop();
  ASSERT_TRUE(stretch.tape.complete());
  VirtualDevice played(machine), issued(machine);
  for (VirtualDevice* each : {&played, &issued}) {
    each->keep_log(true);
    each->occupy(each->stream(communication), seconds / 3, "broadcast");
  }
  for (int i = 0; i < 3; ++i) {
    played.replay()->repeat(stretch);
    issue(issued);
  }
  for (uint8_t stream = 0; stream < most_streams; ++stream)
    EXPECT_EQ(played.record(Stream{stream}).time, issued.record(Stream{stream}).time);
  EXPECT_EQ(played.now(), issued.now());
  EXPECT_EQ(played.bytes_in_use(), issued.bytes_in_use());
  EXPECT_EQ(played.work().total().count, issued.work().total().count);
  EXPECT_EQ(played.work().calls.launches, issued.work().calls.launches);
  EXPECT_EQ(device.work().total().count, stretch.work.total().count);
  ASSERT_EQ(played.log().size(), issued.log().size());
  for (size_t i = 0; i < played.log().size(); ++i) {
    EXPECT_EQ(played.log()[i].name, issued.log()[i].name);
    EXPECT_EQ(played.log()[i].stream, issued.log()[i].stream);
    EXPECT_EQ(played.log()[i].begin, issued.log()[i].begin);
    EXPECT_EQ(played.log()[i].end, issued.log()[i].end);
  }
}

TEST_F(VirtualDeviceTest, ATapeIsIncompleteWhereItIsNotAll) {
  const Event before = device.record(Stream::compute);
  Replay& replay = *device.replay();
  Replay::Stretch other;
  replay.start(other);
  const Event on_other = device.record(Stream::compute);
  replay.stop();
  const std::function<void()> what[] = {
      [&] { device.wait(Stream::copy, before); },
      [&] { device.wait(Stream::copy, on_other); },
      [&] { (void)device.now(); },
      [&] { device.synchronize(); },
      [&] { (void)device.issue(Stream::copy); },
      [&] { device.occupy_between(Stream::copy, "send", 1, 2); },
      [&] { (void)device.allocate_on_host(1); },
      [&] { device.deallocate_on_host(nullptr, 1); },
  };
  for (const auto& each : what) {
    Replay::Stretch stretch;
    replay.start(stretch);
    device.execute(fill);
    EXPECT_TRUE(stretch.tape.complete());
    each();
    EXPECT_FALSE(stretch.tape.complete());
    replay.stop();
    EXPECT_THROW(replay.repeat(stretch), std::logic_error);
  }
}

TEST_F(VirtualDeviceTest, ValuesCannotBeCopied) {
  float value = 0;
  EXPECT_THROW(device.copy_to_host(&value, big), std::logic_error);
  EXPECT_THROW(device.copy_from_host(big, &value), std::logic_error);
}

}  // namespace
}  // namespace frugal::kernels
