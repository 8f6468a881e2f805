#include <gtest/gtest.h>
#include <nccl.h>

#include "tests/engine/comm/group.h"
#include "tests/nccl/cluster.h"

// NCCL's communicators against those that the CPU's ranks use, on streams that are threads: what is
// not ordered goes wrong. What the real library and a GPU do is not tested here.
namespace frugal {
namespace {

using testing::make_fake_cluster;
using testing::of_ranks;

template <class T>
class NcclCollectives : public ::testing::Test {
 protected:
  static constexpr int64_t count = 1000;
  using Values = std::vector<T>;

  static Values input(int rank, int64_t size) {
    return random_values<T>(size, static_cast<uint64_t>(100 + rank));
  }
  static Values read(Rank& rank, const Tensor& tensor) {
    Values values(static_cast<size_t>(tensor.view().size()));
    rank.device.copy_to_host(values.data(), tensor);
    return values;
  }
  static Tensor write(Rank& rank, const Values& values) {
    const Tensor tensor = rank.allocate(dtype_of<T>, {static_cast<int64_t>(values.size())});
    rank.device.copy_from_host(tensor, values.data());
    return tensor;
  }
  static Tensor blank(Rank& rank, int64_t size) { return rank.allocate(dtype_of<T>, {size}); }

  /// Runs body(rank) → values on every rank of both, and compares.
  template <class Body>
  void compare(Body body) {
    for (const int ranks : {1, 2, 4}) {
      std::vector<Values> results[2];
      for (const bool nccl : {false, true}) {
        const auto cluster =
            nccl ? make_fake_cluster(of_ranks(ranks)) : make_cpu_cluster(of_ranks(ranks), 1);
        results[nccl].resize(static_cast<size_t>(ranks));
        cluster->run([&](Rank& rank) {
          results[nccl][static_cast<size_t>(rank.tensor_group.rank())] = body(rank);
        });
      }
      for (size_t r = 0; r < results[0].size(); ++r)
        EXPECT_TRUE(same_bits(results[true][r], results[false][r])) << r << " of " << ranks;
    }
  }
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(NcclCollectives, Types);

TYPED_TEST(NcclCollectives, AllReduce) {
  this->compare([this](Rank& rank) {
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
  this->compare([this](Rank& rank) {
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

TEST(NcclOrder, FollowsAndPrecedesWhatIsComputed) {
  const auto cluster = make_fake_cluster(of_ranks(4));
  cluster->run([](Rank& rank) {
    Tensor data = rank.allocate(DType::f32, {100000});
    float expected = 1;
    rank.run(Fill{data, 1});
    for (int i = 0; i < 20; ++i) {
      rank.tensor_group.all_reduce(data).wait();
      expected *= 4;
      if (i % 5 == 4) rank.run(Fill{data, expected = 1});
      // The memory of the first is the second's at once.
      const Tensor next = rank.allocate(DType::f32, data.shape());
      rank.run(Convert{data, next});
      data = next;
    }
    std::vector<float> values(100000);
    rank.device.copy_to_host(values.data(), data);
    EXPECT_EQ(values, std::vector<float>(values.size(), expected));
  });
}

TEST(NcclOrder, TrainingComputesWhatTheCpusRanksCompute) {
  for (const int ranks : {1, 2, 4})
    for (const bool sequence : {false, true}) {
      RunConfig c = of_ranks(ranks);
      c.sequence_parallel = sequence;
      std::vector<double> results[2];
      for (const bool nccl : {false, true}) {
        const auto cluster = nccl ? make_fake_cluster(c) : make_cpu_cluster(c, 1);
        Trainer trainer(*cluster, c, {});
        for (int i = 0; i < 2; ++i) {
          const StepResult result = trainer.step(random_batch(c, i));
          results[nccl].insert(results[nccl].end(), {result.loss, result.gradient_norm});
        }
      }
      EXPECT_EQ(results[true], results[false]) << ranks << " ranks";
    }
}

/// Neighbours that both send before they receive, over two groups of the same devices.
TEST(NcclGroup, OnStreamsOfTheirOwnDoNotWaitForEachOther) {
  std::vector<FRUGAL_CUDA::CudaDevice> devices(2);
  const std::vector<Device*> members{&devices[0], &devices[1]};
  const auto forward = make_nccl_group(members, 60, Stream::activations);
  const auto backward = make_nccl_group(members, 60, Stream::gradients);
  const std::vector<float> activations = random_values<float>(100, 1);
  const std::vector<float> gradients = random_values<float>(100, 2);
  std::vector<std::vector<float>> received(2, std::vector<float>(100));
  const auto exchange = [&](int rank) {
    FRUGAL_CUDA::CudaDevice& device = devices[static_cast<size_t>(rank)];
    Communicator& out = (rank == 0 ? forward : backward)->communicator(rank);
    Communicator& in = (rank == 0 ? backward : forward)->communicator(rank);
    std::vector<float> values = rank == 0 ? activations : gradients;
    std::vector<float>& got = received[static_cast<size_t>(rank)];
    forward->communicator(rank).barrier();
    backward->communicator(rank).barrier();
    Pending sent = out.send(view(values), 1 - rank);
    in.receive(view(got), 1 - rank).wait();
    sent.wait();
    device.synchronize();
  };
  { const std::jthread first(exchange, 0), second(exchange, 1); }
  EXPECT_EQ(received[0], gradients);
  EXPECT_EQ(received[1], activations);
}

TEST(NcclGroup, EndsItsCommunicators) {
  EXPECT_EQ(fake_nccl::communicators(), 0);
  {
    const auto cluster = make_fake_cluster(of_ranks(4));
    EXPECT_EQ(fake_nccl::communicators(), 0) << "made when they are used";
    for (int i = 0; i < 2; ++i)
      cluster->run([](Rank& rank) {
        const Tensor data = rank.allocate(DType::f32, {1});
        rank.run(Fill{data, 1});
        rank.tensor_group.all_reduce(data).wait();
        rank.tensor_group.barrier();
      });
    EXPECT_EQ(fake_nccl::communicators(), 4) << "once";
  }
  EXPECT_EQ(fake_nccl::communicators(), 0);
}

}  // namespace
}  // namespace frugal
