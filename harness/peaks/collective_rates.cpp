#include "harness/peaks/collective_rates.h"

#include <array>

#include "harness/place/target.h"

namespace frugal::harness {
namespace {

/// A rank's memory for all collectives: the largest buffer, and its share of one.
struct Buffers {
  Tensor all, shard;
};

struct Collective {
  std::string_view name;
  int passes;  ///< around a ring
  void (*run)(Communicator& group, const View& all, const View& shard);
};

constexpr std::array collectives = {
    Collective{
        "all-reduce", 2,
        [](Communicator& group, const View& all, const View&) { group.all_reduce(all).wait(); }},
    Collective{"all-gather", 1,
               [](Communicator& group, const View& all, const View& shard) {
                 group.all_gather(shard, all).wait();
               }},
    Collective{"reduce-scatter", 1, [](Communicator& group, const View& all, const View& shard) {
                 group.reduce_scatter(all, shard).wait();
               }}};

std::unique_ptr<Cluster> ranks_of(const Target& target, int ranks) {
  RunConfig config;  // any model that can be divided among them
  config.model = {.name = "",
                  .layers = 1,
                  .hidden = int64_t{8} * ranks,
                  .heads = ranks,
                  .sequence = 8,
                  .vocabulary = int64_t{8} * ranks};
  config.tensor_parallel = ranks;
  return target.cluster(config);
}

/// Seconds from the moment all ranks start until the last one ended n collectives.
double seconds(Cluster& cluster, std::vector<Buffers>& buffers, const Collective& collective,
               int64_t elements, int n) {
  double result = 0;
  cluster.run([&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const auto meet = [&] {
      rank.device.synchronize();
      group.barrier();
      return rank.device.now();
    };
    const Buffers& own = buffers[static_cast<size_t>(group.rank())];
    const View all = own.all.view().sliced(0, 0, elements);
    const View shard = own.shard.view().sliced(0, 0, elements / group.size());
    const double start = meet();
    for (int i = 0; i < n; ++i) collective.run(group, all, shard);
    const double end = meet();
    if (group.rank() == 0) result = end - start;
  });
  return result;
}

}  // namespace

std::vector<CollectiveRate> collective_rates(const Target& target, int ranks, int64_t largest) {
  const auto cluster = ranks_of(target, ranks);
  std::vector<Buffers> buffers(static_cast<size_t>(ranks));
  const auto elements_of = [&](int64_t bytes) {
    return bytes / size_of(DType::bf16) / ranks * ranks;
  };
  cluster->run([&](Rank& rank) {
    const int64_t elements = elements_of(largest);
    Buffers& own = buffers[static_cast<size_t>(rank.tensor_group.rank())];
    own = {rank.allocate(DType::bf16, {elements}), rank.allocate(DType::bf16, {elements / ranks})};
    rank.run(Fill{own.all, 0});  // sums that are repeated must stay numbers
    rank.run(Fill{own.shard, 0});
  });
  std::vector<CollectiveRate> rates;
  std::vector<Repeated> timed;
  for (const Collective& collective : collectives)
    for (int64_t bytes = int64_t{1} << 20; bytes <= largest; bytes *= 4) {
      const int64_t elements = elements_of(bytes);
      CollectiveRate& rate = rates.emplace_back();
      rate.name = collective.name;
      rate.ranks = ranks;
      rate.bytes = elements * size_of(DType::bf16);
      rate.factor = collective.passes * (ranks - 1.0) / ranks;
      timed.emplace_back([&cluster, &buffers, &collective, elements](
                             int n) { return seconds(*cluster, buffers, collective, elements, n); },
                         shortest_sample(target));
    }
  std::vector<std::function<void(bool)>> cases;
  for (size_t i = 0; i < rates.size(); ++i)
    cases.emplace_back([&, i](bool keep) {
      const double one = timed[i].run();
      if (keep) rates[i].seconds.push_back(one);
    });
  time_interleaved(cases, rate_timing);
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i].repetitions = timed[i].repetitions();
    rates[i].set(rates[i].factor * static_cast<double>(rates[i].bytes));
  }
  return rates;
}

}  // namespace frugal::harness
