#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "engine/cluster/cluster.h"
#include "engine/comm/local.h"
#include "kernels/support/error.h"
#include "tests/engine/comm/group.h"
#include "tests/processes/world.h"

namespace frugal::testing {
namespace {

using engine::on_every_rank;
using engine::random_values;
using engine::same_bits;
using engine::view;

std::vector<int> everyone() {
  std::vector<int> ranks(static_cast<size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// What this process has after `body`, run by processes and by as many threads on the same values.
template <class T>
class ProcessCollectives : public ::testing::Test {
 protected:
  using Body = std::function<std::vector<T>(Communicator&, std::vector<T>)>;

  std::vector<T> values(int rank, int64_t count) {
    return random_values<T>(count * world().size(), static_cast<uint64_t>(1000 + rank));
  }
  void same_as_threads(const Body& body) {
    const auto group = groups()(everyone());
    for (const int64_t count : {1, 7, 1000, 70001}) {
      std::vector<std::vector<T>> of_threads(static_cast<size_t>(world().size()));
      LocalGroup threads(world().size(), 60);
      on_every_rank(threads, [&](Communicator& c) {
        of_threads[static_cast<size_t>(c.rank())] = body(c, values(c.rank(), count));
      });
      const int own = world().rank();
      EXPECT_TRUE(same_bits(body(group->communicator(own), values(own, count)),
                            of_threads[static_cast<size_t>(own)]))
          << "rank " << own << ", " << count;
    }
  }
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(ProcessCollectives, Types, engine::TypeNames);

TYPED_TEST(ProcessCollectives, AllReduce) {
  this->same_as_threads([](Communicator& c, auto values) {
    c.all_reduce(view(values)).wait();
    return values;
  });
}

TYPED_TEST(ProcessCollectives, ReduceScatterAndAllGather) {
  this->same_as_threads([](Communicator& c, auto values) {
    auto shard = values;
    shard.resize(values.size() / static_cast<size_t>(c.size()));
    c.reduce_scatter(view(values), view(shard)).wait();
    c.all_gather(view(shard), view(values)).wait();
    return values;
  });
}

TYPED_TEST(ProcessCollectives, AllToAllBroadcastAndShift) {
  this->same_as_threads([](Communicator& c, auto values) {
    auto exchanged = values, shifted = values;
    c.all_to_all(view(values), view(exchanged)).wait();
    c.shift(view(exchanged), view(shifted)).wait();
    c.broadcast(view(values), c.size() - 1).wait();
    for (size_t i = 0; i < values.size(); i += 2) values[i] = shifted[i];
    return values;
  });
}

/// Several at once, waited for in another order.
TYPED_TEST(ProcessCollectives, SeveralUnderWay) {
  this->same_as_threads([](Communicator& c, auto values) {
    std::vector<decltype(values)> data(5, values);
    std::vector<Pending> pending;
    for (auto& each : data) pending.push_back(c.all_reduce(view(each)));
    for (const size_t i : {3, 0, 4, 2, 1}) pending[i].wait();
    for (size_t i = 0; i < values.size(); ++i) values[i] = data[i % data.size()][i];
    return values;
  });
}

/// All send before any receives, and in the order of sending messages arrive.
TYPED_TEST(ProcessCollectives, MessagesAreKept) {
  this->same_as_threads([](Communicator& c, auto values) {
    const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
    auto first = values, second = values;
    for (int i = 0; i < 2; ++i) {
      c.send(view(values), next).wait();
      values[0] = values.back();  // what was sent was copied
    }
    c.barrier();
    c.receive(view(first), before).wait();
    c.receive(view(second), before).wait();
    for (size_t i = 1; i < values.size(); i += 2) first[i] = second[i];
    first[0] = second[0];
    return first;
  });
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

/// Between hosts a long message takes several calls of MPI by its sender, which computes until the
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
