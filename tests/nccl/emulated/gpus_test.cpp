// What an emulated GPU refuses where there are several: a real one would end the program, or hang.
#include "kernels/cuda/gpus.h"

#include <gmock/gmock.h>

#include "engine/comm/communicator.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/error.h"
#include "tests/emulator/expect_fault.h"
#include "tests/emulator/gpu.h"
#include "tests/main/left_out.h"
#include "tests/nccl/cluster.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using testing::of_ranks;

class SeveralGpus : public ::testing::Test {
 protected:
  const std::unique_ptr<Device> first_ = make_cuda_device(0), second_ = make_cuda_device(1);
  Ledger ledger_{*second_};
  const Tensor seconds_{ledger_, Kind::activation, DType::f32, {8}};
};
using SeveralGpusDeathTest = SeveralGpus;

FRUGAL_LEFT_OUT(any, "SeveralGpus*", "what the emulated GPU refuses, in fibers");
TEST_F(SeveralGpusDeathTest, DoNotTouchEachOthersMemory) {
  Ledger ledger(*first_);
  first_->execute(Fill{Tensor(ledger, Kind::activation, DType::f32, {8}), 1});
  first_->synchronize();
  second_->execute(Fill{seconds_, 1});
  second_->synchronize();
  EXPECT_FAULT({
    first_->execute(Fill{seconds_, 1});
    first_->synchronize();
  });
}

TEST_F(SeveralGpus, LaunchOnTheirOwnStreamsOnly) {
  auto* const stream = dynamic_cast<cuda::CudaDevice&>(*second_).cuda_stream(Stream::compute);
  dynamic_cast<cuda::CudaDevice&>(*first_).make_current();
  cudaLaunchConfig_t config;
  config.stream = stream;
  void (*const kernel)() = [] {};
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(SeveralGpus, FailApart) {
  emulator::fail_after(1);
  second_->execute(Fill{seconds_, 1});
  EXPECT_THROW(second_->synchronize(), cuda::CudaError);
  EXPECT_NO_THROW(first_->synchronize());
  emulator::fail_after(0);
}

TEST(SeveralRanks, LearnThatAGpuFailed) {
  const auto cluster = make_cuda_cluster(of_ranks(4));
  std::string cause = "nothing was thrown";
  try {
    cluster->run([](Rank& rank) {
      const Tensor data = testing::write<float>(rank, {1});
      rank.tensor_group.barrier();
      if (rank.tensor_group.rank() == 2) emulator::fail_after(1);  // whichever does something next
      rank.tensor_group.all_reduce(data).wait();
      rank.device.synchronize();
    });
  } catch (const std::exception& error) {
    cause = error.what();
  }
  emulator::fail_after(0);
  EXPECT_THAT(cause, HasSubstr("an illegal memory access"));
}

TEST(SeveralRanksDeathTest, AreToldThatTheyCallDifferentCollectives) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto differ = [](const std::function<Pending(Communicator&, const Tensor&)>& second) {
    const auto cluster = make_cuda_cluster(of_ranks(2));
    cluster->run([&](Rank& rank) {
      Communicator& group = rank.tensor_group;
      const Tensor data = testing::write(rank, std::vector<float>(8, 1));
      (group.rank() == 0 ? group.all_reduce(data) : second(group, data)).wait();
      rank.device.synchronize();
    });
  };
  EXPECT_DEATH(differ([](Communicator& group, const Tensor& data) {
                 return group.all_reduce(part_of(data.view(), 0, 2));
               }),
               "all-reduce of 4 elements.*\n.*not the same for all");
  EXPECT_DEATH(
      differ([](Communicator& group, const Tensor& data) { return group.broadcast(data, 1); }),
      "broadcast of 8 elements.*\n.*not the same for all");
}

}  // namespace
}  // namespace frugal::engine
