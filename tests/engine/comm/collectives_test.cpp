#include <gtest/gtest.h>

#include "tests/engine/comm/group.h"

namespace frugal::engine {
namespace {

/// Every collective against a serial loop over the ranks in their order, bit for bit.
template <class T>
class Collectives : public ::testing::Test {
 protected:
  using Values = std::vector<std::vector<T>>;

  Values inputs(int ranks, int64_t count) {
    Values values;
    for (int r = 0; r < ranks; ++r)
      values.push_back(random_values<T>(count, static_cast<uint64_t>(1000 * ranks + r)));
    return values;
  }
  std::vector<T> sum(const Values& values) {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<T> result(values[0].size());
    for (size_t i = 0; i < result.size(); ++i) {
      auto total = static_cast<A>(values[0][i]);
      for (size_t r = 1; r < values.size(); ++r) total += static_cast<A>(values[r][i]);
      result[i] = static_cast<T>(total);
    }
    return result;
  }
  /// Runs `body(communicator, count)` for groups and counts of all sorts.
  template <class Body>
  void for_all(Body body) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const int64_t count : {1, 7, 1000, 6151})
        for (const Parts parts : {Parts::by_each, Parts::by_last}) {
          SCOPED_TRACE(::testing::Message()
                       << ranks << " ranks, " << count << " elements, " << static_cast<int>(parts));
          LocalGroup group(ranks, 60, {}, parts);
          body(group, ranks, count);
        }
    }
  }
};

using Types = ::testing::Types<float, Bf16, double>;
TYPED_TEST_SUITE(Collectives, Types, TypeNames);

TYPED_TEST(Collectives, AllReduce) {
  this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
    auto data = this->inputs(ranks, count);
    const auto expected = this->sum(data);
    on_every_rank(group, [&](Communicator& c) {
      c.all_reduce(view(data[static_cast<size_t>(c.rank())])).wait();
    });
    for (const auto& result : data) EXPECT_TRUE(same_bits(result, expected));
  });
}

/// One thread is all ranks here: none can be kept until another waits.
TYPED_TEST(Collectives, DoneByTheLastRankKeepNobody) {
  auto data = this->inputs(3, 1000);
  const auto expected = this->sum(data);
  LocalGroup group(3, 0.2, {}, Parts::by_last);
  std::vector<Pending> sums;
  for (const int rank : {1, 0, 2})
    sums.push_back(group.communicator(rank).all_reduce(view(data[static_cast<size_t>(rank)])));
  for (const auto& result : data) EXPECT_TRUE(same_bits(result, expected)) << "before any waits";
  for (Pending& sum : sums) sum.wait();
}

TYPED_TEST(Collectives, ReduceScatterThenAllGatherIsAllReduce) {
  for (const bool in_place : {false, true})
    this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
      auto data = this->inputs(ranks, count * ranks);
      const auto expected = this->sum(data);
      on_every_rank(group, [&](Communicator& c) {
        const View all = view(data[static_cast<size_t>(c.rank())]);
        std::vector<TypeParam> own(static_cast<size_t>(count));
        const View shard = in_place ? part_of(all, c.rank(), ranks) : view(own);
        c.reduce_scatter(all, shard).wait();
        const auto first = expected.begin() + c.rank() * count;
        EXPECT_EQ(std::memcmp(shard.data, &*first, static_cast<size_t>(shard.bytes())), 0);
        c.all_gather(shard, all).wait();
      });
      for (const auto& result : data) EXPECT_TRUE(same_bits(result, expected));
    });
}

TYPED_TEST(Collectives, AllGather) {
  this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
    auto shards = this->inputs(ranks, count);
    std::vector<TypeParam> expected;
    for (const auto& shard : shards) expected.insert(expected.end(), shard.begin(), shard.end());
    on_every_rank(group, [&](Communicator& c) {
      std::vector<TypeParam> all(expected.size());
      c.all_gather(view(shards[static_cast<size_t>(c.rank())]), view(all)).wait();
      EXPECT_TRUE(same_bits(all, expected));
    });
  });
}

TYPED_TEST(Collectives, AllToAllIsATranspose) {
  this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
    auto from = this->inputs(ranks, count * ranks);
    on_every_rank(group, [&](Communicator& c) {
      std::vector<TypeParam> to(static_cast<size_t>(count * ranks));
      c.all_to_all(view(from[static_cast<size_t>(c.rank())]), view(to)).wait();
      for (int j = 0; j < ranks; ++j) {
        const auto sent = from[static_cast<size_t>(j)].begin() + c.rank() * count;
        const auto got = to.begin() + j * count;
        EXPECT_TRUE(same_bits(std::vector<TypeParam>(got, got + count),
                              std::vector<TypeParam>(sent, sent + count)));
      }
    });
  });
}

TYPED_TEST(Collectives, ShiftGoesAroundTheRing) {
  this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
    auto from = this->inputs(ranks, count);
    on_every_rank(group, [&](Communicator& c) {
      std::vector<TypeParam> to(static_cast<size_t>(count)), next(to);
      c.shift(view(from[static_cast<size_t>(c.rank())]), view(to)).wait();
      EXPECT_TRUE(same_bits(to, from[static_cast<size_t>((c.rank() + ranks - 1) % ranks)]));
      c.shift(view(to), view(next)).wait();
      EXPECT_TRUE(same_bits(next, from[static_cast<size_t>((c.rank() + 2 * ranks - 2) % ranks)]));
    });
  });
}

TYPED_TEST(Collectives, BroadcastFromEveryRoot) {
  this->for_all([&](LocalGroup& group, int ranks, int64_t count) {
    for (int root = 0; root < ranks; ++root) {
      auto data = this->inputs(ranks, count);
      const auto expected = data[static_cast<size_t>(root)];
      on_every_rank(group, [&](Communicator& c) {
        c.broadcast(view(data[static_cast<size_t>(c.rank())]), root).wait();
      });
      for (const auto& result : data) EXPECT_TRUE(same_bits(result, expected));
    }
  });
}

TEST(Messages, ArriveInTheOrderInWhichTheyWereSent) {
  LocalGroup group(2, 60);
  on_every_rank(group, [](Communicator& c) {
    auto first = random_values<double>(5, 1);
    auto second = random_values<double>(5, 2);
    if (c.rank() == 0) {
      c.send(view(first), 1).wait();
      c.send(view(second), 1).wait();
    } else {
      std::vector<double> a(5);
      std::vector<double> b(5);
      Pending one = c.receive(view(a), 0);
      Pending two = c.receive(view(b), 0);
      two.wait();  // waiting in another order does not change which is which
      one.wait();
      EXPECT_TRUE(same_bits(a, first));
      EXPECT_TRUE(same_bits(b, second));
    }
  });
}

TEST(Messages, BytesOfAnyType) {
  LocalGroup group(1, 60);
  std::vector<uint8_t> sent = {1, 2, 3};
  std::vector<uint8_t> got(3);
  group.communicator(0).send(view(sent), 0).wait();
  group.communicator(0).receive(view(got), 0).wait();
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace frugal::engine
