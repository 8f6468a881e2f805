// How communicators end, and what they take of a GPU.
#include <gmock/gmock.h>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/error.h"
#include "kernels/support/error.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/nccl.h"
#include "tests/nccl/cluster.h"
#include "tests/nccl/divisions.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::of_ranks;

int64_t free_on(int gpu) {
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<int64_t>(free);
}

void sum_once(Rank& rank) {
  const Tensor data = testing::write<float>(rank, std::vector<float>(8, 1));
  rank.tensor_group.all_reduce(data).wait();
  rank.device.synchronize();
}

TEST(NcclEnding, GivesItsMemoryBackBeforeAnotherBegins) {
  const int64_t free = free_on(0);
  const int aborted = emulator::nccl::aborted();
  for (int i = 0; i < 3; ++i) {
    const auto cluster = make_cuda_cluster(of_ranks(4));
    EXPECT_EQ(emulator::nccl::communicators(), 0) << "made when they are used";
    for (int run = 0; run < 2; ++run) cluster->run(sum_once);
    EXPECT_EQ(emulator::nccl::communicators(), 4) << "once";
    EXPECT_LE(free_on(0), free - emulator::gpu().nccl_memory);
  }
  for (const int gpu : {0, 3}) EXPECT_EQ(free_on(gpu), free);
  EXPECT_EQ(emulator::nccl::communicators(), 0);
  EXPECT_EQ(emulator::nccl::aborted(), aborted);
}

TEST(NcclEnding, IsAnAbortAfterAFailure) {
  const int64_t free = free_on(0);
  const int aborted = emulator::nccl::aborted();
  {
    const auto cluster = make_cuda_cluster(of_ranks(2));
    EXPECT_THROW(cluster->run([](Rank& rank) {
      sum_once(rank);
      if (rank.tensor_group.rank() == 1) throw OutOfMemory("no room", 10, 0, 5);
      sum_once(rank);
    }),
                 OutOfMemory);
  }
  EXPECT_EQ(emulator::nccl::aborted(), aborted + 2);
  EXPECT_EQ(emulator::nccl::communicators(), 0);
  while (free_on(0) < free) {  // a thread of the library's goes on
  }
}

/// Nobody ends what a rank has issued alone.
TEST(NcclEnding, IsAnAbortWhereTheDeadlinePasses) {
  const int aborted = emulator::nccl::aborted();
  {
    const auto cluster = make_cuda_cluster(of_ranks(2), 0.3);
    cluster->run([](Rank& rank) {
      sum_once(rank);
      const Tensor data = testing::write<float>(rank, {1});
      if (rank.tensor_group.rank() == 0) (void)rank.tensor_group.all_reduce(data);
    });
  }
  EXPECT_EQ(emulator::nccl::aborted(), aborted + 2);
}

TEST(NcclFailure, WhatTheLibraryReportsNamesTheCallAndWhatToDo) {
  const auto cluster = make_cuda_cluster(of_ranks(2));
  const auto body = [](Rank& rank) {
    sum_once(rank);
    if (rank.tensor_group.rank() == 1) emulator::nccl::break_rank(1);
    sum_once(rank);
  };
  const std::string message = message_of<cuda::CudaError>([&] { cluster->run(body); });
  emulator::nccl::repair();
  EXPECT_THAT(message,
              AllOf(HasSubstr("ncclCommGetAsyncError at engine/comm/nccl/nccl_communicator.cpp:"),
                    HasSubstr("a link went down"), HasSubstr("NCCL_DEBUG=INFO")));
  cluster->run(sum_once);
}

TEST(NcclMemory, ThatIsNotThereIsOutOfMemory) {
  const int64_t usual = emulator::gpu().nccl_memory;
  emulator::gpu().nccl_memory = emulator::gpu().memory / collective_blocks + 1;
  const auto cluster = make_cuda_cluster(of_ranks(2));
  const std::string message = message_of<OutOfMemory>([&] { cluster->run(sum_once); });
  emulator::gpu().nccl_memory = usual;
  EXPECT_THAT(message, AllOf(HasSubstr("out of memory for NCCL's own buffers"),
                             HasSubstr("1 GiB free"), HasSubstr("up to 832 MiB")));
  cluster->run(sum_once);
}

/// A block takes a mebibyte here. Of the library's, one takes at most 52, one of messages 24, and
/// one whose rank exchanges messages with three others 36 more.
TEST(NcclMemory, OfAllCommunicatorsOfARankIsKnownBefore) {
  EXPECT_EQ(memory_of_communicators(of_ranks(1)), 0);
  EXPECT_EQ(memory_of_communicators(of_ranks(2)), int64_t{832} << 20);
  for (const Variant& division : divisions()) {
    RunConfig run = tiny_gpt();
    division.choose(run);
    std::vector<int64_t> free(static_cast<size_t>(run.ranks()));
    for (size_t r = 0; r < free.size(); ++r) free[r] = free_on(static_cast<int>(r));
    const auto cluster = make_cuda_cluster(run);
    cluster->run(testing::use_all_groups);
    int64_t most = 0;
    for (size_t r = 0; r < free.size(); ++r) {
      const int64_t others = cluster->rank(static_cast<int>(r)).device.reserved();
      most = std::max(most, free[r] - free_on(static_cast<int>(r)) - others);
    }
    EXPECT_GE(memory_of_communicators(run), 24 * most) << division.name;
    if (run.chunks > 1) continue;  // of processes there are more
    EXPECT_LE(memory_of_communicators(run), (52 + 36) * most) << division.name;
  }
}

}  // namespace
}  // namespace frugal::engine
