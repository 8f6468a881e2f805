#include <gtest/gtest.h>

#include "tests/emulator/gpu.h"
#include "tests/nccl/cluster.h"

namespace frugal {
namespace {

constexpr int64_t message_size = 1000;

/// Every stage sends before it receives, and the last one sends to the first.
TEST(NcclOrder, ARingOfStagesDoesNotWaitForItself) {
  RunConfig run = testing::small_gpt();
  run.pipeline_parallel = 4;
  run.schedule = ScheduleKind::interleaved;
  run.chunks = 2;
  run.microbatches = 4;
  run.model.layers = 8;
  const auto cluster = make_cuda_cluster(run, 10);
  const auto body = [](Rank& rank) {
    const int stages = rank.groups.activations.size(), stage = rank.groups.activations.rank();
    const auto round = [&](Communicator& group, int step, float origin) {
      const Tensor mine = testing::write(rank, std::vector<float>(message_size, origin)),
                   others = rank.allocate(DType::f32, {message_size});
      Pending sent = group.send(mine, (stage + step) % stages);
      group.receive(others, (stage + stages - step) % stages).wait();
      sent.wait();
      return testing::read<float>(rank, others);
    };
    rank.groups.activations.barrier();
    rank.groups.gradients.barrier();
    for (int i = 0; i < 3; ++i) {
      const auto value = [&](int of) { return static_cast<float>(10 * i + of % stages); };
      EXPECT_EQ(round(rank.groups.activations, 1, value(stage)),
                std::vector<float>(message_size, value(stage + stages - 1)));
      EXPECT_EQ(round(rank.groups.gradients, stages - 1, value(stage)),
                std::vector<float>(message_size, value(stage + 1)));
    }
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    emulator::set_seed(seed);
    cluster->run(body);
  }
}

}  // namespace
}  // namespace frugal
