#include <gmock/gmock.h>

#include "kernels/support/error.h"
#include "tests/engine/comm/staged.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StagedGroupFailure, DeadlineNamesTheStageAndTheMessage) {
  Pipeline pipeline(round_machine(), {.stages = 4}, {}, Replicated::no, 0.05);
  pipeline.forward->communicator(1).send(unit, 2).wait();
  Communicator& c = pipeline.forward->communicator(2);
  c.receive(unit, 1).wait();
  EXPECT_THAT(
      message_of<DeadlinePassed>([&] { c.receive(unit, 1).wait(); }),
      AllOf(HasSubstr("stage 2: message 1 from stage 1 did not come"), HasSubstr("0.05 s")));
  EXPECT_THROW(pipeline.forward->communicator(0).send(unit, 1).wait(), PeerLost);
}

TEST(StagedGroupFailure, DeadlineNamesTheEnds) {
  Pipeline pipeline(round_machine(), {.stages = 4}, {}, Replicated::no, 0.05);
  EXPECT_THAT(
      message_of<DeadlinePassed>([&] { (void)pipeline.ends->communicator(0).all_reduce(unit); }),
      AllOf(HasSubstr("stage 0: all-reduce of 131072 f32"), HasSubstr("stage 3 did not come")));
}

TEST(StagedGroupFailure, AbortReachesAll) {
  Pipeline pipeline(round_machine(), {.stages = 3});
  on_every_rank(*pipeline.all, [](Communicator& c) {
    if (c.rank() == 1) return c.abort("stage 1 ran out of memory");
    const auto reduce = [&] { (void)c.all_reduce(unit); };
    EXPECT_EQ(message_of<PeerLost>(reduce), "stage 1 ran out of memory");
    EXPECT_THROW(c.receive(unit, 1).wait(), PeerLost);
    EXPECT_THROW(c.send(unit, 1).wait(), PeerLost);
  });
  pipeline.all->reset();
  on_every_rank(*pipeline.all, [](Communicator& c) { c.barrier(); });
}

TEST(StagedGroupFailure, AStageThatUnwindsDoesNotWait) {
  Pipeline pipeline(round_machine(), {.stages = 2});
  const auto body = [&] {
    const Pending pending = pipeline.forward->communicator(1).receive(unit, 0);
    throw std::runtime_error("out of luck");
  };
  EXPECT_EQ(message_of<std::runtime_error>(body), "out of luck");
  EXPECT_EQ(message_of<PeerLost>([&] { (void)pipeline.forward->communicator(0).send(unit, 1); }),
            "stage 1 failed before it had waited for its peers");
}

TEST(StagedGroupFailure, MessagesThatDoNotFit) {
  Pipeline pipeline(round_machine(), {.stages = 2});
  for (const View& other :
       {View(nullptr, DType::f32, {1 << 16}), View(nullptr, DType::i32, {1 << 17})}) {
    const Pending sent = pipeline.forward->communicator(0).send(unit, 1);
    EXPECT_THAT(message_of<std::logic_error>(
                    [&] { pipeline.forward->communicator(1).receive(other, 0).wait(); }),
                AllOf(HasSubstr("131072 f32 by stage 0"), HasSubstr("by stage 1")));
  }
}

}  // namespace
}  // namespace frugal::engine
