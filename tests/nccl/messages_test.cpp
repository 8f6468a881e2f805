#include <gtest/gtest.h>

#include "tests/nccl/cluster.h"
#include "tests/nccl/setting.h"

namespace frugal::engine {
namespace {

/// Stages of the interleaved schedule, where the last sends to the first.
std::unique_ptr<Cluster> ring_of_stages(int stages) {
  RunConfig run = testing::small_gpt();
  run.pipeline_parallel = stages;
  run.schedule = ScheduleKind::interleaved;
  run.chunks = 2;
  run.microbatches = 4;
  run.model.layers = 8;
  return make_cuda_cluster(run, 60);
}

/// Value that comes when every stage sends `value` to the next one before it receives.
float exchanged(Rank& rank, Communicator& group, int step, float value) {
  constexpr int64_t count = 1000;
  const int stages = group.size(), stage = group.rank();
  const Tensor mine = testing::write(rank, std::vector<float>(count, value)),
               others = rank.allocate(DType::f32, {count});
  Pending sent = group.send(mine, (stage + step) % stages);
  group.receive(others, (stage + stages - step) % stages).wait();
  sent.wait();
  const std::vector<float> values = testing::read<float>(rank, others);
  EXPECT_EQ(values, std::vector<float>(count, values.front()));
  return values.front();
}

void exchange_both_ways(Rank& rank) {
  const Communicators& groups = rank.groups;
  const int stages = groups.activations.size(), stage = groups.activations.rank();
  groups.activations.barrier();
  groups.gradients.barrier();
  for (int i = 0; i < 3; ++i) {
    const auto value = [&](int of) { return static_cast<float>(10 * i + of % stages); };
    EXPECT_EQ(exchanged(rank, groups.activations, 1, value(stage)), value(stage + stages - 1));
    EXPECT_EQ(exchanged(rank, groups.gradients, stages - 1, value(stage)), value(stage + 1));
  }
}

TEST(NcclGroup, ARingOfStagesDoesNotWaitForItself) {
  for (const int stages : {2, 4}) {
    if (stages > testing::most_ranks()) break;
    const auto cluster = ring_of_stages(stages);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      testing::choose_order(seed);
      cluster->run(exchange_both_ways);
    }
  }
}

}  // namespace
}  // namespace frugal::engine
