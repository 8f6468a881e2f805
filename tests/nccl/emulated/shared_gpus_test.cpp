// Ranks that share a GPU, as NCCL allows where it is told to.
#include <gmock/gmock.h>

#include <array>
#include <mutex>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/gpus.h"
#include "tests/emulator/gpu.h"
#include "tests/engine/comm/group.h"
#include "tests/nccl/cluster.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* variable = "NCCL_MULTI_RANK_GPU_ENABLE";

/// Nothing is told when a test begins, and nothing is left of what it tells.
class SharedGpus : public ::testing::Test {
 protected:
  SharedGpus() { unsetenv(variable); }
  ~SharedGpus() override {
    unsetenv(variable);
    emulator::gpu().nccl_version = 0;
  }
  static void tell(const char* value) { setenv(variable, value, 1); }
};

/// Sums of ones that two ranks on the first GPU have, or what they say otherwise.
struct Sums {
  std::array<float, 2> values{};
  std::string said;
};
Sums sums_on_one_gpu() {
  const auto first = make_cuda_device(0), second = make_cuda_device(0);
  const std::vector<Device*> devices = {first.get(), second.get()};
  const auto group = make_nccl_group(devices, 60);
  Sums sums;
  std::mutex mutex;
  on_every_rank(*group, [&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    try {
      Ledger ledger(*devices[rank]);
      const Tensor data(ledger, Kind::activation, DType::f32, {1});
      devices[rank]->execute(Fill{data, 1});
      communicator.all_reduce(data).wait();
      devices[rank]->copy_to_host(&sums.values.at(rank), data);
    } catch (const std::exception& error) {
      communicator.abort(error.what());
      const std::lock_guard lock(mutex);
      sums.said += error.what();
    }
  });
  return sums;
}

TEST_F(SharedGpus, AreRefusedByTheLibraryUnlessItIsTold) {
  const Sums refused = sums_on_one_gpu();
  EXPECT_EQ(refused.values, (std::array<float, 2>{}));
  EXPECT_THAT(refused.said, HasSubstr("ncclCommInitRankConfig"));
  EXPECT_THAT(refused.said, HasSubstr("invalid usage"));
  tell("1");
  const Sums sums = sums_on_one_gpu();
  EXPECT_EQ(sums.said, "");
  EXPECT_EQ(sums.values, (std::array<float, 2>{2, 2}));
}

TEST_F(SharedGpus, HaveRanksThatTakeTurns) {
  std::vector<int> gpus;
  for (int rank = 0; rank < 5; ++rank) gpus.push_back(gpu_of_rank(rank, 2, 3));
  EXPECT_EQ(gpus, std::vector<int>({2, 3, 4, 2, 3}));
}

TEST_F(SharedGpus, AreSharedWhereTheVariableIsANumberAndNotZero) {
  EXPECT_FALSE(ranks_may_share_gpus());
  for (const auto& [value, may] :
       {std::pair{"1", true}, {"0x2", true}, {"0", false}, {"", false}, {"yes", false}}) {
    tell(value);
    EXPECT_EQ(ranks_may_share_gpus(), may) << value;
  }
}

TEST_F(SharedGpus, NeedALibraryThatCanDoIt) {
  const RunConfig run = testing::of_ranks(2);
  EXPECT_THAT(why_not_on_gpus(run, 2, 1), HasSubstr("need a GPU each, and there is 1"));
  tell("1");
  emulator::gpu().nccl_version = 22907;
  EXPECT_THAT(why_not_on_gpus(run, 2, 1),
              AllOf(HasSubstr("NCCL 2.29.7, which was loaded, cannot"), HasSubstr("LD_PRELOAD"),
                    HasSubstr("scripts/nccl.sh")));
  EXPECT_EQ(why_not_on_gpus(run, 2, 2), "") << "a GPU each";
  emulator::gpu().nccl_version = 23000;
  EXPECT_EQ(why_not_on_gpus(run, 2, 1), "");
}

/// All that a rank's kernels may have waiting at a time fits beside another rank's.
TEST_F(SharedGpus, HaveFewBlocksOfEachKernel) {
  const int64_t of_block = emulator::gpu().nccl_memory;
  const auto taken = [&] {
    const int64_t free = free_gpu_memory(0);
    const auto cluster = make_cuda_cluster(testing::of_ranks(2));
    cluster->run(testing::use_all_groups);
    const int64_t others = cluster->rank(0).device.reserved();
    return (free - free_gpu_memory(0) - others) / of_block;
  };
  EXPECT_EQ(taken(), collective_blocks);
  tell("1");
  EXPECT_EQ(taken(), shared_blocks);
}

}  // namespace
}  // namespace frugal::engine
