#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/gpus.h"
#include "tests/main/left_out.h"
#include "tests/nccl/bodies.h"
#include "tests/nccl/setting.h"

// NCCL's communicators against those that the CPU's ranks use. The thread sanitizer does not know
// the emulator's fibers: tests that run kernels are left out there.
namespace frugal::engine {
namespace {

using testing::of_ranks;

template <class T>
class NcclCollectives : public ::testing::Test {
 protected:
  static constexpr double rounding() {
    if constexpr (dtype_of<T> == DType::bf16) {
      return 1.0 / 256;
    } else {
      return std::numeric_limits<T>::epsilon();
    }
  }
  static double number(T value) {
    if constexpr (dtype_of<T> == DType::bf16)
      return static_cast<float>(value);
    else
      return value;
  }
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(NcclCollectives, Types, TypeNames);

/// NCCL chooses the order of sums. Those of absolute values bound how much each addition may round.
TYPED_TEST(NcclCollectives, AreThoseOfTheCpu) {
  constexpr int64_t count = 1000;
  for (const int ranks : {2, 4, 8}) {
    if (ranks > testing::most_ranks()) break;
    const auto nccl = make_cuda_cluster(testing::of_replicas(ranks), 60);
    const auto cpu = make_cpu_cluster(testing::of_replicas(ranks), 1);
    for (const auto& body : testing::collective_bodies<TypeParam>()) {
      SCOPED_TRACE(::testing::Message() << body.name << " of " << ranks);
      const auto ours = testing::results(*nccl, body, count);
      const auto theirs = testing::results(*cpu, body, count);
      if (!body.sums || testing::sums_like_cpu(ranks)) {
        for (size_t r = 0; r < ours.size(); ++r) EXPECT_TRUE(same_bits(ours[r], theirs[r])) << r;
        continue;
      }
      const auto bounds = testing::results(*cpu, body, count, true);
      for (size_t r = 0; r < ours.size(); ++r)
        for (size_t i = 0; i < ours[r].size(); ++i)
          ASSERT_NEAR(this->number(ours[r][i]), this->number(theirs[r][i]),
                      2 * ranks * this->rounding() * this->number(bounds[r][i]))
              << i << ", rank " << r;
    }
  }
}

FRUGAL_LEFT_OUT(thread, "NcclOrder.*",
                "kernels in fibers, which the thread sanitizer does not know");
TEST(NcclOrder, FollowsAndPrecedesWhatIsComputed) {
  constexpr int64_t count = 1000;
  const int ranks = std::min(4, testing::most_ranks());
  const auto cluster = make_cuda_cluster(of_ranks(ranks));
  const auto body = [ranks](Rank& rank) {
    Tensor data = rank.allocate(DType::f32, {count});
    float expected = 1;
    rank.run(Fill{data, 1});
    for (int i = 0; i < 18; ++i) {
      rank.tensor_group.all_reduce(data).wait();
      expected *= static_cast<float>(ranks);
      if (i % 5 == 4) rank.run(Fill{data, expected = 1});  // and sums of it are the last
      // The memory of the first is the second's at once.
      const Tensor next = rank.allocate(DType::f32, data.shape());
      rank.run(Convert{data, next});
      data = next;
    }
    EXPECT_EQ(testing::read<float>(rank, data), std::vector<float>(count, expected));
  };
  for (uint64_t seed = 0; seed < 10; ++seed) {
    testing::choose_order(seed);
    cluster->run(body);
  }
}

/// Neighbours that both send before they receive, over two groups of the same devices.
TEST(NcclGroup, OnStreamsOfTheirOwnDoNotWaitForEachOther) {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> members;
  for (int i = 0; i < 2; ++i) {
    const int gpu = gpu_of_rank(i, 0, static_cast<int>(gpus().size()));
    members.push_back(devices.emplace_back(make_cuda_device(gpu)).get());
  }
  const auto forward = make_nccl_group(members, 60, {streams::activations}, MessagesTo::next);
  const auto backward = make_nccl_group(members, 60, {streams::gradients}, MessagesTo::previous);
  std::vector<std::vector<float>> received(2, std::vector<float>(100));
  const auto exchange = [&](int rank) {
    Device& device = *members[static_cast<size_t>(rank)];
    Ledger ledger(device);
    const auto memory = [&] { return Tensor(ledger, Kind::activation, DType::f32, {100}); };
    const Tensor values = memory(), got = memory();
    device.copy_from_host(values, random_values<float>(100, static_cast<uint64_t>(rank)).data());
    Communicator& out = (rank == 0 ? forward : backward)->communicator(rank);
    Communicator& in = (rank == 0 ? backward : forward)->communicator(rank);
    forward->communicator(rank).barrier();
    backward->communicator(rank).barrier();
    Pending sent = out.send(values, 1 - rank);
    in.receive(got, 1 - rank).wait();
    sent.wait();
    device.copy_to_host(received[static_cast<size_t>(rank)].data(), got);
  };
  { const std::jthread first(exchange, 0), second(exchange, 1); }
  for (const size_t rank : {0, 1}) EXPECT_EQ(received[rank], random_values<float>(100, 1 - rank));
}

}  // namespace
}  // namespace frugal::engine
