#include "harness/peaks/collective_rates.h"

#include <array>

#include "harness/place/target.h"

namespace frugal::harness {
namespace {

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

}  // namespace

RunConfig config_of_ranks(int ranks) {
  RunConfig config;
  config.model = {.name = "",
                  .layers = 1,
                  .hidden = int64_t{8} * ranks,
                  .heads = ranks,
                  .sequence = 8,
                  .vocabulary = int64_t{8} * ranks};
  config.tensor_parallel = ranks;
  return config;
}

TimedCollectives::TimedCollectives(const Target& target, int ranks, int64_t largest)
    : ranks_(ranks),
      cluster_(target.cluster(config_of_ranks(ranks))),
      buffers_(static_cast<size_t>(ranks)) {
  cluster_->run([&](Rank& rank) {
    const int64_t elements = bytes(largest) / size_of(DType::bf16);
    Buffers& own = buffers_[static_cast<size_t>(rank.tensor_group.rank())];
    own = {rank.allocate(DType::bf16, {elements}), rank.allocate(DType::bf16, {elements / ranks})};
    rank.run(Fill{own.all, 0});  // sums that are repeated must stay numbers
    rank.run(Fill{own.shard, 0});
  });
}

const std::vector<std::string_view>& TimedCollectives::names() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> found;
    for (const Collective& collective : collectives) found.push_back(collective.name);
    return found;
  }();
  return all;
}

int64_t TimedCollectives::bytes(int64_t wanted) const {
  return wanted / size_of(DType::bf16) / ranks_ * ranks_ * size_of(DType::bf16);
}

double TimedCollectives::factor(size_t collective) const {
  return collectives.at(collective).passes * (ranks_ - 1.0) / ranks_;
}

double TimedCollectives::seconds(size_t collective, int64_t bytes, int n) {
  const int64_t elements = bytes / size_of(DType::bf16);
  double result = 0;
  cluster_->run([&](Rank& rank) {
    Communicator& group = rank.tensor_group;
    const auto meet = [&] {
      rank.device.synchronize();
      group.barrier();
      return rank.device.now();
    };
    const Buffers& own = buffers_[static_cast<size_t>(group.rank())];
    const View all = own.all.view().sliced(0, 0, elements);
    const View shard = own.shard.view().sliced(0, 0, elements / group.size());
    const double start = meet();
    for (int i = 0; i < n; ++i) collectives.at(collective).run(group, all, shard);
    const double end = meet();
    if (group.rank() == 0) result = end - start;
  });
  return result;
}

std::vector<CollectiveRate> collective_rates(const Target& target, int ranks, int64_t largest) {
  TimedCollectives timed(target, ranks, largest);
  std::vector<CollectiveRate> rates;
  std::vector<Repeated> repeated;
  for (size_t c = 0; c < TimedCollectives::names().size(); ++c)
    for (int64_t wanted = int64_t{1} << 20; wanted <= largest; wanted *= 4) {
      CollectiveRate& rate = rates.emplace_back();
      rate.name = TimedCollectives::names()[c];
      rate.ranks = ranks;
      rate.bytes = timed.bytes(wanted);
      rate.factor = timed.factor(c);
      repeated.emplace_back(
          [&timed, c, bytes = rate.bytes](int n) { return timed.seconds(c, bytes, n); },
          shortest_sample(target));
    }
  std::vector<std::function<void(bool)>> cases;
  for (size_t i = 0; i < rates.size(); ++i)
    cases.emplace_back([&, i](bool keep) {
      const double one = repeated[i].run();
      if (keep) rates[i].seconds.push_back(one);
    });
  time_interleaved(cases, rate_timing);
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i].repetitions = repeated[i].repetitions();
    rates[i].set(rates[i].factor * static_cast<double>(rates[i].bytes));
  }
  return rates;
}

}  // namespace frugal::harness
