#include "tests/engine/comm/staged.h"

#include <gmock/gmock.h>

#include "engine/schedule/links.h"

namespace frugal::engine {
namespace {

using ::testing::ElementsAre;

/// One stage of PipeDream-Flush: 2 s forward, 4 s backward, messages between.
void one_forward_one_backward(Pipeline& pipeline, int stage, int stages, int microbatches) {
  VirtualDevice& device = *pipeline.devices[static_cast<size_t>(stage)];
  Communicator& forward = pipeline.forward->communicator(stage);
  Communicator& backward = pipeline.backward->communicator(stage);
  std::vector<Pending> sent;
  const auto pass = [&](Communicator& group, int from, int to, double seconds) {
    if (from >= 0 && from < stages) group.receive(unit, from).wait();
    device.occupy(Stream::compute, seconds, "pass");
    if (to >= 0 && to < stages) sent.push_back(group.send(unit, to));
  };
  const int warm_up = stages - 1 - stage;
  for (int k = 0; k < microbatches + warm_up; ++k) {
    if (k < microbatches) pass(forward, stage - 1, stage + 1, 2);
    if (k >= warm_up) pass(backward, stage + 1, stage - 1, 4);
  }
}

TEST(StagedGroup, PipelineByHand) {
  Pipeline pipeline(round_machine(), {.stages = 3});
  on_every_rank(*pipeline.all, [&](Communicator& c) {
    one_forward_one_backward(pipeline, c.rank(), c.size(), 4);
  });
  // Fill: what leaves stage 0 at 2 is at stage 1 at 3 and at stage 2 at 6, and its gradient is back
  // at 13 and 18. Drain: stage 2 ends at 34, and the last gradient is there at 35 and 40.
  //                                         F0 F1 F2 B0  F3  B1  B2  B3
  EXPECT_THAT(pipeline.begins(0), ElementsAre(0, 2, 4, 18, 22, 24, 32, 40));
  //                                         F0 F1 B0  F2  B1  F3  B2  B3
  EXPECT_THAT(pipeline.begins(1), ElementsAre(3, 5, 13, 17, 19, 25, 27, 35));
  //                                         F0 B0 F1  B1  F2  B2  F3  B3
  EXPECT_THAT(pipeline.begins(2), ElementsAre(6, 8, 12, 14, 20, 22, 28, 30));
  EXPECT_EQ(pipeline.clock(0, Stream::compute), 44);
}

TEST(StagedGroup, MessagesOfOneDirectionFollowEachOther) {
  Pipeline pipeline(round_machine(), {.stages = 2});
  Communicator& first = pipeline.forward->communicator(0);
  Communicator& second = pipeline.forward->communicator(1);
  std::vector<Pending> sent;
  for (int i = 0; i < 2; ++i) sent.push_back(first.send(unit, 1));
  sent.push_back(pipeline.backward->communicator(0).send(unit, 1));
  EXPECT_EQ(pipeline.clock(0, streams::activations), 2);
  EXPECT_EQ(pipeline.clock(0, streams::gradients), 1)
      << "the directions do not wait for each other";
  EXPECT_EQ(pipeline.clock(0, Stream::compute), 0) << "sending returns at once";
  second.receive(unit, 0).wait();
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 1);
  second.receive(unit, 0).wait();
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 2);
  EXPECT_EQ(pipeline.clock(1, streams::activations), 1)
      << "the second receive waited for the first";
  sent[1].wait();
  EXPECT_EQ(pipeline.clock(0, Stream::compute), 2) << "its memory is free again";
}

/// NCCL does so: what is sent behind a receive of the same stream leaves when that has ended.
TEST(StagedGroup, AReceiveHoldsItsStreamAlone) {
  Pipeline pipeline(round_machine(), {.stages = 3});
  Communicator& second = pipeline.forward->communicator(1);
  pipeline.devices[0]->occupy(Stream::compute, 10, "pass");
  const Pending sent = pipeline.forward->communicator(0).send(unit, 1);
  Pending received = second.receive(unit, 0);  // at 11
  const Pending back = pipeline.backward->communicator(1).send(unit, 0);
  EXPECT_EQ(pipeline.clock(1, streams::gradients), 1);
  const Pending passed_on = second.send(unit, 2);
  EXPECT_EQ(pipeline.clock(1, streams::activations), 12);
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 0);
  received.wait();
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 11);
}

TEST(StagedGroup, MessagesTakeNoMultiprocessors) {
  Pipeline pipeline(round_machine(), {.stages = 2});
  VirtualDevice& device = *pipeline.devices[0];
  const Pending sent = pipeline.forward->communicator(0).send(unit, 1);
  const Fill fill{View(nullptr, DType::f32, {1 << 20}), 0};
  device.execute(fill);
  EXPECT_EQ(pipeline.clock(0, Stream::compute), device.costs().duration(fill));
}

TEST(StagedGroup, BlockingMessagesHoldUpBothEndsUntilTheyAreThere) {
  Pipeline pipeline(round_machine(), {.stages = 2}, messages_are(Messages::blocking));
  Communicator& first = pipeline.forward->communicator(0);
  Communicator& second = pipeline.forward->communicator(1);
  VirtualDevice& sender = *pipeline.devices[0];
  sender.occupy(Stream::compute, 3, "pass");
  Pending sent = first.send(unit, 1);
  EXPECT_EQ(pipeline.clock(0, Stream::compute), 4);
  sender.occupy(Stream::compute, 1, "pass");
  EXPECT_EQ(pipeline.begins(0).back(), 4) << "the host waits too";
  second.receive(unit, 0).wait();
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 4);
  sent = first.send(unit, 1);  // from 5 on
  pipeline.devices[1]->occupy(Stream::compute, 10, "pass");
  second.receive(unit, 0).wait();
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 14) << "it was there at 6";
}

TEST(StagedGroup, ExchangedMessagesBeginWhenBothEndsAreReady) {
  Pipeline pipeline(round_machine(), {.stages = 2}, messages_are(Messages::exchanged));
  on_every_rank(*pipeline.all, [&](Communicator& c) {
    VirtualDevice& device = *pipeline.devices[static_cast<size_t>(c.rank())];
    device.occupy(Stream::compute, c.rank() == 0 ? 3 : 10, "pass");
    if (c.rank() == 0)
      pipeline.forward->communicator(0).send(unit, 1).wait();
    else
      pipeline.forward->communicator(1).receive(unit, 0).wait();
    device.occupy(Stream::compute, 1, "pass");
  });
  EXPECT_THAT(pipeline.begins(0), ElementsAre(0, 11)) << "its host waits, too";
  EXPECT_THAT(pipeline.begins(1), ElementsAre(0, 11));
}

/// Stages of 8 ranks: each message leaves its node, and takes 2 s alone, of which 1 is latency, and
/// 1 + 1 / 0.25 beside another.
TEST(StagedGroup, ExchangedMessagesOfBothWaysSlowEachOther) {
  for (const double late : {0.0, 1.0, 2.0, 30.0}) {
    Machine machine = round_machine();
    machine.exchange_fraction = 0.25;
    Pipeline pipeline(machine, {.data = 8, .stages = 2}, messages_are(Messages::exchanged));
    on_every_rank(*pipeline.all, [&](Communicator& c) {
      VirtualDevice& device = *pipeline.devices[static_cast<size_t>(c.rank())];
      device.occupy(Stream::compute, c.rank() == 0 ? 0 : late, "pass");
      const int other = 1 - c.rank();
      StagedGroup& out = c.rank() == 0 ? *pipeline.forward : *pipeline.backward;
      StagedGroup& in = c.rank() == 0 ? *pipeline.backward : *pipeline.forward;
      const Pending sent = out.communicator(c.rank()).send(unit, other);
      in.communicator(c.rank()).receive(unit, other).wait();
    });
    // Both begin with the later stage.
    for (int stage : {0, 1}) EXPECT_EQ(pipeline.clock(stage, Stream::compute), late + 5) << late;
  }
}

TEST(Exchange, OfTwoMessagesTheLaterOneSlowsTheRestOfTheOther) {
  const Crossing a{.begin = 0, .cost = {.alone = 4, .beside = 8}};
  using Ends = std::pair<double, double>;
  EXPECT_EQ(ends_of_both(a, {.begin = 0, .cost = {.alone = 4, .beside = 8}}), Ends(8, 8));
  EXPECT_EQ(ends_of_both(a, {.begin = 4, .cost = {.alone = 4, .beside = 8}}), Ends(4, 8))
      << "one after the other";
  // From 2 to 6 together: a has its second half, b the first; then b is alone.
  EXPECT_EQ(ends_of_both(a, {.begin = 2, .cost = {.alone = 4, .beside = 8}}), Ends(6, 8));
  EXPECT_EQ(ends_of_both({.begin = 2, .cost = {.alone = 4, .beside = 8}}, a), Ends(8, 6));
  // b is over at 4, at full speed, and a, of which 1 is left, had half of its speed.
  EXPECT_EQ(ends_of_both(a, {.begin = 2, .cost = {.alone = 2, .beside = 2}}), Ends(5, 4));
}

/// All of a message of 0.5 MiB, and the half of one of 8.
TEST(StagedGroup, SendersAreThroughWithWhatIsInABuffer) {
  for (const int64_t times : {1, 16}) {
    Machine machine = round_machine();
    machine.collective_latency = machine.link_latency = 1e-9;
    const View data(nullptr, DType::f32, {times << 17});
    Pipeline pipeline(machine, {.stages = 2},
                      {.messages = {.kind = Messages::exchanged, .buffered = true}});
    on_every_rank(*pipeline.all, [&](Communicator& c) {
      if (c.rank() == 0)
        pipeline.forward->communicator(0).send(data, 1).wait();
      else
        pipeline.forward->communicator(1).receive(data, 0).wait();
    });
    const double seconds = 0.5 * static_cast<double>(times);
    EXPECT_NEAR(pipeline.clock(1, Stream::compute), seconds, 1e-6);
    EXPECT_NEAR(pipeline.clock(0, streams::activations), seconds, 1e-6) << "the next one waits";
    EXPECT_NEAR(pipeline.clock(0, Stream::compute), times == 1 ? 0 : seconds / 2, 1e-6);
  }
}

/// The middle one of three stages sends on what it has received before, and then receives.
TEST(StagedGroup, ExchangedMessagesToOneStageAreSentBeforeOthersAreReceived) {
  Pipeline pipeline(round_machine(), {.stages = 3}, messages_are(Messages::exchanged));
  on_every_rank(*pipeline.all, [&](Communicator& c) {
    Communicator& forward = pipeline.forward->communicator(c.rank());
    Pending sent;
    for (int i = 0; i < 2; ++i) {
      if (c.rank() > 0) forward.receive(unit, c.rank() - 1).wait();
      if (c.rank() == 0) sent.wait();
      if (c.rank() < 2) sent = forward.send(unit, c.rank() + 1);
    }
  });
  EXPECT_EQ(pipeline.clock(0, Stream::compute), 3) << "its second one from 2 on";
  EXPECT_EQ(pipeline.clock(1, Stream::compute), 4);
  EXPECT_EQ(pipeline.clock(2, Stream::compute), 4);
}

/// Each of two ranks sends half of a message of 2 s, and then they gather it: 0.25 + 0.25 s of
/// latency, and half of it over a link.
TEST(StagedGroup, ShardedMessagesAreGathered) {
  const View large(nullptr, DType::f32, {3 << 17});  // 0.5 s of latency and 1.5 of a link
  const auto arrival = [&](bool sharded, Replicated replicated) {
    Pipeline pipeline(round_machine(), {.tensor = 2, .stages = 2},
                      {.messages = {.sharded = sharded}}, replicated);
    const Pending sent = pipeline.forward->communicator(0).send(large, 1);
    pipeline.forward->communicator(1).receive(large, 0).wait();
    return pipeline.clock(1, Stream::compute);
  };
  EXPECT_EQ(arrival(false, Replicated::over_tensor_group), 2);
  EXPECT_EQ(arrival(true, Replicated::no), 2) << "each rank has something else to send";
  EXPECT_EQ(arrival(true, Replicated::over_tensor_group), 0.5 + 0.75 + 0.5 + 0.75);
}

/// Stages of 4 ranks on nodes of 8: the second message leaves its node, and 4 send at once.
TEST(StagedGroup, MessagesBetweenNodes) {
  for (const int devices_per_port : {1, 2, 8}) {
    Machine machine = round_machine();
    machine.devices_per_port = devices_per_port;
    Pipeline pipeline(machine, {.tensor = 2, .data = 2, .stages = 3});
    const Pending within = pipeline.forward->communicator(0).send(unit, 1);
    const Pending between = pipeline.forward->communicator(1).send(unit, 2);
    EXPECT_EQ(pipeline.clock(0, streams::activations), 1);
    // 4 that have the port of 8 alone send twice as fast.
    EXPECT_EQ(pipeline.clock(1, streams::activations), devices_per_port == 8 ? 1.5 : 2);
  }
}

TEST(StagedGroup, CollectivesBeginWithTheLastAndEndTogether) {
  Pipeline pipeline(round_machine(), {.stages = 4});
  on_every_rank(*pipeline.all, [&](Communicator& c) {
    VirtualDevice& device = *pipeline.devices[static_cast<size_t>(c.rank())];
    device.occupy(Stream::compute, 10 - 2 * c.rank(), "pass");
    if (c.rank() % 3 == 0) {
      Communicator& ends = pipeline.ends->communicator(c.rank() / 3);
      EXPECT_EQ(ends.rank(), c.rank() / 3);
      EXPECT_EQ(ends.size(), 2);
      const Pending reduced = ends.all_reduce(unit);
      EXPECT_EQ(device.record(device.stream(streams::tensors)).time, 10 + 0.25 + 2 * (0.25 + 0.25));
    }
    c.barrier();
  });
  const CostModel costs(round_machine());
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_EQ(pipeline.devices[static_cast<size_t>(stage)]->now(),
              11.25 + costs.all_reduce({.size = 4, .per_node = 4}, 0));
}

/// Stages of 4 ranks on nodes of 8: two of a group share a node.
TEST(StagedGroup, CollectivesBetweenNodes) {
  const CostModel costs(round_machine());
  Pipeline pipeline(round_machine(), {.tensor = 2, .data = 2, .stages = 4});
  on_every_rank(*pipeline.all, [&](Communicator& c) {
    c.all_reduce(unit).wait();
    EXPECT_EQ(pipeline.clock(c.rank(), Stream::compute),
              costs.all_reduce({.size = 4, .per_node = 2}, static_cast<double>(unit.bytes())));
  });
}

TEST(StagedGroup, AStageAloneWaitsForNobody) {
  Pipeline pipeline(round_machine(), {.tensor = 2, .stages = 1});
  pipeline.all->communicator(0).all_reduce(unit).wait();
  pipeline.ends->communicator(0).all_reduce(unit).wait();
  pipeline.all->communicator(0).barrier();
  EXPECT_EQ(pipeline.devices[0]->now(), 0);
}

}  // namespace
}  // namespace frugal::engine
