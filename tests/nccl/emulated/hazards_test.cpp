// What ranks that are threads of one process share, and what a kernel that waits for other ranks
// keeps from the rest of its GPU. Where a rank could wait for ever the emulator ends the program.
#include <gmock/gmock.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gpus.h"
#include "kernels/support/error.h"
#include "tests/emulator/gpu.h"
#include "tests/emulator/streams.h"
#include "tests/nccl/cluster.h"
#include "tests/support/message_of.h"

namespace frugal::engine {
namespace {

using ::testing::HasSubstr;
using testing::of_ranks;

/// Rank 0 launches far more than there is room for behind a collective. Rank 1 comes to it only
/// when rank 0 launches nothing more. Threads take turns with calls to the emulator, so 1000 of
/// rank 1's are as many of rank 0's, of which a launch needs a few.
TEST(NcclHazards, ARankThatIsFarAheadLeavesRoomForTheOthers) {
  const auto cluster = make_cuda_cluster(of_ranks(2));
  std::atomic<int> launched{0};
  cluster->run([&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const Tensor data = testing::write(rank, std::vector<float>(8, 1));
    group.barrier();
    if (group.rank() == 1) {
      auto stands = [&, before = -1]() mutable {
        constexpr int calls = 1000;
        before = launched;
        for (int i = 0; i < calls; ++i) (void)emulator::queued();
        return before > 0 && before == launched;
      };
      while (!stands()) {
      }
      EXPECT_LT(emulator::queued(), emulator::gpu().launch_queue);
    }
    group.all_reduce(data).wait();
    for (int i = 0; i < 3 * emulator::gpu().launch_queue && group.rank() == 0; ++i, ++launched)
      rank.run(Fill{data, 2});
    rank.device.synchronize();
  });
  EXPECT_GE(launched, emulator::gpu().launch_queue);
}

Tensor random(Rank& rank, int64_t size, uint32_t site) {
  Tensor x = rank.allocate(DType::f32, {size, size});
  rank.run(RandomNormal{x, 1, {1, site, 0}, {}});
  return x;
}

/// One whose algorithms have not been timed, which takes memory for sums that are thrown away.
void multiply(Rank& rank, int64_t size) {
  const Tensor a = random(rank, size, 1), b = random(rank, size, 2), c = random(rank, size, 3);
  Gemm product{a, b, c};
  product.accumulate = true;
  rank.run(product);
}

TEST(NcclHazards, TimingAlgorithmsFreesNothingThatPeersMayWaitFor) {
  const auto cluster = make_cuda_cluster(of_ranks(2));
  std::atomic<bool> issued{false};
  cluster->run([&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const Tensor data = testing::write(rank, std::vector<float>(8, 1));
    group.barrier();
    if (group.rank() == 1) {
      while (!issued) std::this_thread::yield();
      multiply(rank, 37);
    }
    group.all_reduce(data).wait();
    issued = true;
    rank.device.synchronize();
    EXPECT_EQ(testing::read<float>(rank, data).front(), 2);
  });
}

/// The timing is behind a collective for which the other rank does not come.
TEST(NcclHazards, TimingAlgorithmsEndsWithTheDeadline) {
  const auto cluster = make_cuda_cluster(of_ranks(2), 0.3);
  std::atomic<bool> over{false};
  const auto body = [&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const Tensor data = testing::write(rank, std::vector<float>(8, 1));
    group.barrier();
    constexpr double patience =
        20;  // seconds, after which the first rank has waited without a look
    for (const double begin = rank.device.now();
         group.rank() == 1 && !over && rank.device.now() - begin < patience;)
      std::this_thread::yield();
    try {
      group.all_reduce(data).wait();
      multiply(rank, 41);
    } catch (...) {
      over = true;
      throw;
    }
  };
  EXPECT_THAT(message_of<DeadlinePassed>([&] { cluster->run(body); }),
              HasSubstr("all-reduce of 8 f32 (number 1) did not end within 0.3 s"));
}

/// A kernel's code is loaded before any kernel waits for other ranks.
TEST(NcclHazards, NothingIsLoadedWhileAKernelWaitsForPeers) {
  const auto cluster = make_cuda_cluster(of_ranks(2));
  std::atomic<bool> launched{false};
  cluster->run([&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const Tensor data = testing::write(rank, std::vector<float>(8, 1)), y = random(rank, 4, 4);
    group.barrier();
    while (group.rank() == 1 && !launched) std::this_thread::yield();
    group.all_reduce(data).wait();
    rank.run(Gelu{y, y});  // whichever kernel it is
    launched = true;
    rank.device.synchronize();
  });
}

/// Ranks meet in groups of two whose messages they launch in opposite orders, each on a stream of
/// its own: all of a rank's have to fit on its GPU.
TEST(NcclHazards, MessagesInAnyOrderFitBesideEachOther) {
  constexpr std::array all = {streams::tensors,
                              streams::ends,
                              streams::activations,
                              streams::gradients,
                              streams::arriving_activations,
                              streams::arriving_gradients,
                              streams::returning_activations,
                              streams::returning_gradients};
  const auto a = make_cuda_device(0), b = make_cuda_device(1);
  const std::vector<Device*> devices = {a.get(), b.get()};
  std::vector<std::unique_ptr<Group>> groups;
  constexpr double deadline = 5;  // seconds, which pass where messages do not fit
  for (const StreamSpec& stream : all)
    groups.push_back(make_nccl_group(devices, deadline, {stream}, MessagesTo::next));
  std::barrier both(2);
  const auto of_rank = [&](int rank) {
    Device& device = *devices[static_cast<size_t>(rank)];
    Ledger ledger(device);
    for (const auto& group : groups) group->communicator(rank).barrier();
    std::vector<Tensor> data;
    std::vector<Pending> pending;
    for (size_t i = 0; i < groups.size(); ++i)
      data.emplace_back(ledger, Kind::activation, DType::f32, Shape{8});
    for (const Tensor& each : data) device.execute(Fill{each, static_cast<float>(rank)});
    for (size_t i = 0; i < groups.size(); ++i) {
      const size_t which = rank == 0 ? i : groups.size() - 1 - i;
      Communicator& c = groups[which]->communicator(rank);
      pending.push_back(rank == 0 ? c.send(data[which], 1) : c.receive(data[which], 0));
      for (int steps = 0; steps < 50; ++steps) emulator::execute_some();  // until it has begun
      both.arrive_and_wait();
    }
    for (Pending& each : pending) each.wait();
    device.synchronize();
    std::vector<float> values(8);
    for (const Tensor& each : data) {
      device.copy_to_host(values.data(), each);
      EXPECT_EQ(values, std::vector<float>(8, 0));
    }
  };
  std::jthread other([&] { EXPECT_NO_THROW(of_rank(1)); });
  EXPECT_NO_THROW(of_rank(0));
}

TEST(NcclStreams, GoBeforeWhatIsComputed) {
  const auto device = make_cuda_device(0);
  const auto priority = [&](Stream stream) {
    int value = 0;
    EXPECT_EQ(
        cudaStreamGetPriority(dynamic_cast<cuda::CudaDevice&>(*device).cuda_stream(stream), &value),
        cudaSuccess);
    return value;
  };
  for (const GroupSpec& group : all_groups)
    EXPECT_LT(priority(device->stream(group.stream)), priority(Stream::compute));
  EXPECT_LT(priority(device->stream(streams::arriving_activations)), priority(Stream::compute));
  for (const Stream stream : {Stream::copy, device->stream(streams::to_host)})
    EXPECT_EQ(priority(stream), priority(Stream::compute));
}

}  // namespace
}  // namespace frugal::engine
