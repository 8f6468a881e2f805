#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/comm/nccl/nccl.h"
#include "kernels/cuda/gpus.h"
#include "tests/engine/comm/group.h"
#include "tests/main/left_out.h"
#include "tests/nccl/cluster.h"
#include "tests/nccl/setting.h"

// NCCL's communicators against those that the CPU's ranks use. The thread sanitizer does not know
// the emulator's fibers: tests that run kernels are left out there.
namespace frugal::engine {
namespace {

using testing::of_ranks;

template <class T>
class NcclCollectives : public ::testing::Test {
 protected:
  static constexpr int64_t count = 1000;
  using Values = std::vector<T>;

  Values input(int rank, int64_t size) const {
    Values values = random_values<T>(size, static_cast<uint64_t>(100 + rank));
    if (absolute_)
      for (T& value : values) value = static_cast<T>(std::abs(static_cast<float>(value)));
    return values;
  }
  static Values read(Rank& rank, const Tensor& tensor) { return testing::read<T>(rank, tensor); }
  static Tensor write(Rank& rank, const Values& values) { return testing::write(rank, values); }
  static Tensor blank(Rank& rank, int64_t size) { return rank.allocate(dtype_of<T>, {size}); }

  /// Runs body(rank) → values on every rank of both, and compares.
  template <class Body>
  void compare(Body body) {
    for (const int ranks : {2, 4, 8}) {
      if (ranks > testing::most_ranks()) break;
      const auto values = [&](Cluster& cluster) { return of_each(cluster, body); };
      const auto nccl = values(*make_cuda_cluster(of_ranks(ranks), deadline));
      const auto cpu = values(*make_cpu_cluster(of_ranks(ranks), 1));
      for (size_t r = 0; r < cpu.size(); ++r)
        EXPECT_TRUE(same_bits(nccl[r], cpu[r])) << r << " of " << ranks;
    }
  }
  /// Compares sums, whose order NCCL chooses. Those of absolute values bound how much each
  /// addition may round.
  template <class Body>
  void compare_sums(Body body) {
    for (const int ranks : {2, 4, 8}) {
      if (ranks > testing::most_ranks()) break;
      const auto values = [&](Cluster& cluster) { return of_each(cluster, body); };
      const auto nccl = values(*make_cuda_cluster(of_ranks(ranks), deadline));
      const auto cpu = values(*make_cpu_cluster(of_ranks(ranks), 1));
      absolute_ = true;
      const auto bounds = values(*make_cpu_cluster(of_ranks(ranks), 1));
      absolute_ = false;
      const bool exact = testing::sums_like_cpu(ranks);
      for (size_t r = 0; r < cpu.size(); ++r)
        for (size_t i = 0; i < cpu[r].size(); ++i)
          ASSERT_NEAR(number(nccl[r][i]), number(cpu[r][i]),
                      exact ? 0 : 2 * ranks * rounding() * number(bounds[r][i]))
              << i << ", rank " << r << " of " << ranks;
    }
  }

 private:
  static constexpr double deadline = 60;
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
  template <class Body>
  static std::vector<Values> of_each(Cluster& cluster, const Body& body) {
    std::vector<Values> all(static_cast<size_t>(cluster.local_ranks()));
    cluster.run(
        [&](Rank& rank) { all[static_cast<size_t>(rank.tensor_group.rank())] = body(rank); });
    return all;
  }

  bool absolute_ = false;
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(NcclCollectives, Types, TypeNames);

TYPED_TEST(NcclCollectives, AllReduce) {
  this->compare_sums([this](Rank& rank) {
    const Tensor data = this->write(rank, this->input(rank.tensor_group.rank(), this->count));
    rank.tensor_group.all_reduce(data).wait();
    rank.tensor_group.all_reduce(data).wait();
    return this->read(rank, data);
  });
}

TYPED_TEST(NcclCollectives, AllGather) {
  this->compare([this](Rank& rank) {
    const Tensor shard = this->write(rank, this->input(rank.tensor_group.rank(), this->count));
    const Tensor all = this->blank(rank, this->count * rank.tensor_group.size());
    rank.tensor_group.all_gather(shard, all).wait();
    return this->read(rank, all);
  });
}

TYPED_TEST(NcclCollectives, ReduceScatter) {
  this->compare_sums([this](Rank& rank) {
    Communicator& c = rank.tensor_group;
    const Tensor all = this->write(rank, this->input(c.rank(), this->count * c.size()));
    const Tensor shard = this->blank(rank, this->count);
    c.reduce_scatter(all, shard).wait();
    return this->read(rank, shard);
  });
}

TYPED_TEST(NcclCollectives, AllToAll) {
  this->compare([this](Rank& rank) {
    Communicator& c = rank.tensor_group;
    const Tensor from = this->write(rank, this->input(c.rank(), this->count * c.size()));
    const Tensor to = this->blank(rank, this->count * c.size());
    c.all_to_all(from, to).wait();
    return this->read(rank, to);
  });
}

TYPED_TEST(NcclCollectives, Shift) {
  this->compare([this](Rank& rank) {
    Communicator& c = rank.tensor_group;
    const Tensor from = this->write(rank, this->input(c.rank(), this->count));
    const Tensor to = this->blank(rank, this->count);
    c.shift(from, to).wait();
    return this->read(rank, to);
  });
}

TYPED_TEST(NcclCollectives, BroadcastFromTheLast) {
  this->compare([this](Rank& rank) {
    Communicator& c = rank.tensor_group;
    const Tensor data = this->write(rank, this->input(c.rank(), this->count));
    c.broadcast(data, c.size() - 1).wait();
    return this->read(rank, data);
  });
}

TYPED_TEST(NcclCollectives, MessagesDownTheLine) {
  this->compare([this](Rank& rank) {
    Communicator& c = rank.tensor_group;
    const Tensor data = this->write(rank, this->input(c.rank(), this->count));
    if (c.rank() > 0) c.receive(data, c.rank() - 1).wait();
    if (c.rank() + 1 < c.size()) c.send(data, c.rank() + 1).wait();
    return this->read(rank, data);
  });
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
