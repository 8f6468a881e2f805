// What communicators take of a GPU, beside what is reserved for them, and whether they give it
// back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/bytes.h"
#include "tests/nccl/cluster.h"
#include "tests/nccl/divisions.h"
#include "tests/nccl/setting.h"

namespace frugal::engine {
namespace {

/// Bytes of the first GPU that its ranks have taken, beside what their devices have.
int64_t taken_since(int64_t free, Cluster& cluster, int ranks) {
  const auto gpus = static_cast<int>(kernels::gpus().size());
  int64_t taken = free - free_gpu_memory(0);
  for (int r = 0; r < ranks; ++r)
    if (gpu_of_rank(r, 0, gpus) == 0) taken -= cluster.rank(r).device.reserved();
  return taken;
}

TEST(NcclMemoryOnGpus, IsWithinWhatIsReservedForIt) {
  const auto gpus = static_cast<int>(kernels::gpus().size());
  for (const Variant& division : divisions()) {
    RunConfig run = tiny_gpt();
    division.choose(run);
    const int ranks = run.ranks();
    if (ranks > testing::most_ranks()) continue;
    const int64_t free = free_gpu_memory(0), most = memory_of_communicators(run);
    const auto cluster = make_cuda_cluster(run, 60);
    cluster->run(testing::use_all_groups);
    const int on_first = (ranks + gpus - 1) / gpus;
    const int64_t taken = taken_since(free, *cluster, ranks) / on_first;
    fmt::print("{}: communicators of a rank take {} of the {} that are reserved\n", division.name,
               bytes_in_words(taken), bytes_in_words(most));
    EXPECT_GT(taken, 0) << division.name;
    EXPECT_LE(taken, most) << division.name;
  }
}

TEST(NcclMemoryOnGpus, IsGivenBack) {
  const auto use = [] {
    const auto cluster = make_cuda_cluster(testing::of_ranks(2), 60);
    cluster->run(testing::use_all_groups);
  };
  use();  // what the library keeps for the process it has then
  const int64_t free = free_gpu_memory(0);
  constexpr int64_t page = int64_t{2} << 20;
  for (int i = 0; i < 3; ++i) use();
  EXPECT_GE(free_gpu_memory(0), free - page);
}

}  // namespace
}  // namespace frugal::engine
