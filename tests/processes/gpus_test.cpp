// Ranks that are processes, a GPU each, beside ranks that are threads. GPUs are emulated.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/trainer.h"
#include "tests/cuda/losses.h"
#include "tests/engine/comm/group.h"
#include "tests/engine/support.h"
#include "tests/nccl/cluster.h"
#include "tests/nccl/divisions.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

using engine::random_values;
using engine::same_bits;

/// GPUs are the emulator's, of which every process has all.
std::unique_ptr<Cluster> gpu_of_process(const RunConfig& config, Transport transport) {
  return make_cuda_process_cluster(config, world(), groups(), world().rank(), transport);
}

/// What this process has after `body`, on GPUs of processes and on as many threads of the CPU.
template <class T>
class GpuCollectives : public ::testing::Test {
 protected:
  using Values = std::vector<T>;
  using Body = std::function<Values(Rank&, Communicator&, const Values&)>;

  void same_as_threads(const Body& body) {
    RunConfig config = small_gpt();
    config.data_parallel = world().size();
    for (const int64_t count : {1, 7, 5001}) {
      const auto of_rank = [&](Rank& rank) {
        Communicator& group = rank.groups.data;
        return body(
            rank, group,
            random_values<T>(count * group.size(), static_cast<uint64_t>(1000 + group.rank())));
      };
      std::vector<Values> of_threads(static_cast<size_t>(world().size()));
      make_cpu_cluster(config, 1)->run([&](Rank& rank) {
        of_threads[static_cast<size_t>(rank.groups.data.rank())] = of_rank(rank);
      });
      for (const Transport transport : {Transport::nccl, Transport::host}) {
        Values of_process;
        gpu_of_process(config, transport)->run([&](Rank& rank) { of_process = of_rank(rank); });
        EXPECT_TRUE(same_bits(of_process, of_threads[static_cast<size_t>(world().rank())]))
            << name_of(transport) << ", rank " << world().rank() << ", " << count;
      }
    }
  }
  static Tensor blank(Rank& rank, size_t size) {
    return rank.allocate(dtype_of<T>, {static_cast<int64_t>(size)});
  }
  static Values read(Rank& rank, const Tensor& tensor) { return testing::read<T>(rank, tensor); }
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(GpuCollectives, Types, engine::TypeNames);

/// What is summed is computed just before, and the sum is computed with: nothing but the collective
/// orders them.
TYPED_TEST(GpuCollectives, AllReduceBetweenComputations) {
  this->same_as_threads([this](Rank& rank, Communicator& group, const auto& values) {
    const Tensor given = write(rank, values), data = this->blank(rank, values.size()),
                 sum = this->blank(rank, values.size());
    rank.run(Convert{given, data});
    group.all_reduce(data).wait();
    rank.run(Convert{data, sum});
    rank.run(Fill{data, 0});
    return this->read(rank, sum);
  });
}

TYPED_TEST(GpuCollectives, ReduceScatterAndAllGather) {
  this->same_as_threads([this](Rank& rank, Communicator& group, const auto& values) {
    const Tensor all = write(rank, values);
    const Tensor shard = this->blank(rank, values.size() / static_cast<size_t>(group.size()));
    group.reduce_scatter(all, shard).wait();
    group.all_gather(shard, all).wait();
    return this->read(rank, all);
  });
}

TYPED_TEST(GpuCollectives, AllToAllBroadcastAndShift) {
  this->same_as_threads([this](Rank& rank, Communicator& group, const auto& values) {
    const Tensor data = write(rank, values), exchanged = this->blank(rank, values.size()),
                 shifted = this->blank(rank, values.size());
    group.all_to_all(data, exchanged).wait();
    group.shift(exchanged, shifted).wait();
    group.broadcast(data, group.size() - 1).wait();
    auto all = this->read(rank, data);
    const auto others = this->read(rank, shifted);
    for (size_t i = 0; i < all.size(); i += 2) all[i] = others[i];
    return all;
  });
}

/// Several at once, waited for in another order.
TYPED_TEST(GpuCollectives, SeveralUnderWay) {
  this->same_as_threads([this](Rank& rank, Communicator& group, const auto& values) {
    std::vector<Tensor> data;
    std::vector<Pending> pending;
    for (int i = 0; i < 4; ++i) data.push_back(write(rank, values));
    for (const Tensor& each : data) pending.push_back(group.all_reduce(each));
    for (const size_t i : {3, 0, 2, 1}) pending[i].wait();
    auto mixed = values;
    for (size_t i = 0; i < mixed.size(); ++i)
      mixed[i] = this->read(rank, data[i % data.size()])[i % 2 == 0 ? i : mixed.size() - 1];
    return mixed;
  });
}

/// From the first rank to the last, two at a time; what is sent may be overwritten then.
TYPED_TEST(GpuCollectives, MessagesArriveInTheirOrder) {
  this->same_as_threads([this](Rank& rank, Communicator& group, const auto& values) {
    const Tensor first = write(rank, values), second = this->blank(rank, values.size());
    rank.run(Convert{first, second});
    const int own = group.rank();
    if (own > 0) {
      group.receive(first, own - 1).wait();
      group.receive(second, own - 1).wait();
    }
    if (own + 1 < group.size()) {
      group.send(second, own + 1).wait();
      group.send(first, own + 1).wait();
      rank.run(Fill{second, 0});
    }
    group.barrier();
    auto all = this->read(rank, first);
    const auto others = this->read(rank, second);
    for (size_t i = 0; i < all.size(); i += 2) all[i] = others[i];
    return all;
  });
}

/// Small models, divided in every way that has as many ranks as there are processes.
class GpuLosses : public ::testing::TestWithParam<engine::Variant> {};

TEST_P(GpuLosses, OfProcessesAreThoseOfThreads) {
  RunConfig run = engine::tiny_gpt();
  GetParam().choose(run);
  if (run.ranks() != world().size()) GTEST_SKIP() << run.ranks() << " ranks";
  constexpr int64_t steps = 3;
  std::vector<std::vector<double>> of_processes;
  for (const Transport transport : {Transport::nccl, Transport::host}) {
    const auto cluster = gpu_of_process(run, transport);
    of_processes.push_back(engine::losses(*cluster, run, steps));
  }
  if (world().rank() == 0) {  // the others wait for it at the next test's beginning
    const auto cluster = make_cuda_cluster(run);
    EXPECT_THAT(of_processes, ::testing::Each(engine::losses(*cluster, run, steps)));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, GpuLosses, ::testing::ValuesIn(engine::divisions()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace frugal::testing
