#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/cluster/cluster.h"
#include "kernels/support/error.h"
#include "tests/nccl/bodies.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

using engine::random_values;
using engine::same_bits;
using engine::view;

std::vector<int> everyone() {
  std::vector<int> ranks(static_cast<size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class T>
class ProcessCollectives : public ::testing::Test {};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(ProcessCollectives, Types, engine::TypeNames);

/// All send before any receives, and may change what they have sent.
template <class T>
std::vector<T> kept(Rank& /*rank*/, Communicator& c, const std::vector<T>& given) {
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  auto values = given, first = given, second = given;
  for (int i = 0; i < 2; ++i) {
    c.send(view(values), next).wait();
    values[0] = values.back();
  }
  c.barrier();
  c.receive(view(first), before).wait();
  c.receive(view(second), before).wait();
  return mixed(first, second);
}

TYPED_TEST(ProcessCollectives, AreThoseOfThreads) {
  const RunConfig config = of_replicas(world().size());
  const auto threads = make_cpu_cluster(config, 1);
  const auto process = make_cpu_process_cluster(config, world(), groups(), 1, 1 << 26);
  auto bodies = collective_bodies<TypeParam>();
  bodies.push_back({"messages that are kept", false, kept<TypeParam>});
  for (const auto& body : bodies)
    for (const int64_t count : {1, 7, 1000, 70001}) {
      const auto of_threads = results(*threads, body, count);
      EXPECT_TRUE(same_bits(results(*process, body, count).front(),
                            of_threads[static_cast<size_t>(world().rank())]))
          << body.name << ", rank " << world().rank() << ", " << count;
    }
}

/// One that has sent waits for values that the others have only when they have received.
TEST(Processes, MessagesArriveWhileTheirSenderWaitsForValues) {
  const auto group = groups()(everyone());
  Communicator& own = group->communicator(world().rank());
  const std::vector<float> sent = random_values<float>(4 << 20, 1);
  std::vector<float> received = sent;
  if (own.rank() == 0)
    own.send(view(received), 1).wait();
  else if (own.rank() == 1) {
    received.assign(received.size(), 0);
    own.receive(view(received), 0).wait();
  }
  world().exchange("");
  EXPECT_TRUE(same_bits(received, sent));
}

/// A long message between hosts takes several calls of MPI by its sender, which computes until the
/// message has come.
TEST(Processes, MessagesArriveWhileTheirSenderComputes) {
  RunConfig config;
  config.model = {"tiny", 1, 16, 1, 8, 32, 0, true};
  config.data_parallel = world().size();
  const auto cluster = make_cpu_process_cluster(config, world(), groups(), 1, 1 << 26);
  const std::string come =
      std::filesystem::temp_directory_path() /
      ("frugal-message-" + world().exchange(std::to_string(::getpid())).front());
  cluster->run([&](Rank& rank) {
    const Tensor message = rank.allocate(DType::f32, {4 << 20});
    Communicator& data = rank.groups.data;
    if (data.rank() == 0) {
      data.send(message.view(), 1).wait();
      const Tensor computed = rank.allocate(DType::f32, {1 << 10});
      const double end = activity_clock() + 20;
      while (!std::filesystem::exists(come) && activity_clock() < end)
        rank.run(RandomNormal{.x = computed.view(), .deviation = 1, .stream = {}, .index = {}});
      EXPECT_TRUE(std::filesystem::exists(come)) << "nothing came for 20 s";
    } else if (data.rank() == 1) {
      data.receive(message.view(), 0).wait();
      std::ofstream{come};
    }
  });
  world().exchange("");
  std::filesystem::remove(come);
}

TEST(Processes, ExchangeValuesOfAnySize) {
  for (const size_t size : {0, 1, 3000000}) {
    const std::string mine(size + static_cast<size_t>(world().rank()),
                           static_cast<char>('a' + world().rank()));
    const std::vector<std::string> all = world().exchange(mine);
    ASSERT_EQ(all.size(), static_cast<size_t>(world().size()));
    for (int r = 0; r < world().size(); ++r)
      EXPECT_EQ(all[static_cast<size_t>(r)],
                std::string(size + static_cast<size_t>(r), static_cast<char>('a' + r)));
    const std::vector<std::string> gathered = world().gather(mine);
    EXPECT_EQ(gathered, world().rank() == 0 ? all : std::vector<std::string>());
  }
}

}  // namespace
}  // namespace frugal::testing
