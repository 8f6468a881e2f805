// Whether one rank is slower than the others: the same product on each, by turns.
#include "harness/validate/groups/ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/peaks/peak.h"
#include "harness/validate/group.h"

namespace frugal::harness {
namespace {

constexpr const char* key_of_ranks = "rank/";

/// A product on each rank, which stays in a core's cache; on a GPU a large one.
class RankProducts {
 public:
  explicit RankProducts(Workbench& bench) : cluster_(bench.cluster_of_ranks()) {
    const int64_t n = bench.on_gpu() ? 8192 : 192;
    const DType type = bench.on_gpu() ? DType::bf16 : DType::f32;
    products_.resize(static_cast<size_t>(bench.ranks()));
    cluster_.run([&](Rank& rank) {
      products_[static_cast<size_t>(rank.index)] = std::make_unique<TimedGemm>(
          rank, type, GemmShape{n, n, n}, shortest_sample(bench.target()));
    });
  }

  /// The rank alone; the others wait for it. The fastest of those that were left alone, if any was.
  ObservedTime fastest(int of_rank, int executions) {
    ObservedTime best;
    cluster_.run([&](Rank& rank) {
      if (rank.index != of_rank) return;
      for (int i = 0; i < executions; ++i) {
        const ObservedTime one = execute(*products_[static_cast<size_t>(rank.index)]);
        const bool better =
            one.left_alone == best.left_alone ? one.seconds < best.seconds : one.left_alone;
        if (i == 0 || better) best = one;
      }
    });
    return best;
  }

 private:
  static ObservedTime execute(TimedGemm& product) {
    const Waits before = Waits::of_thread();
    const double seconds = product.run();
    return {seconds, left_alone(before, Waits::of_thread(), seconds)};
  }

  Cluster& cluster_;
  std::vector<std::unique_ptr<TimedGemm>> products_;
};

std::vector<Probe> rank_probes(Workbench& bench) {
  if (!bench.why_no_ranks().empty()) return {};
  const auto products = std::make_shared<RankProducts>(bench);
  std::vector<Probe> probes;
  const int executions = bench.on_gpu() ? 2 : 20;
  for (int rank = 0; rank < bench.ranks(); ++rank)
    probes.push_back({.key = fmt::format("{}{}", key_of_ranks, rank),
                      .what = fmt::format("a product on rank {}", rank),
                      .unit = "s",
                      .seconds = {},
                      .execution = [products, rank, executions] {
                        return products->fastest(rank, executions);
                      }});
  return probes;
}

}  // namespace

Estimate slower_than_others(const std::vector<std::vector<double>>& ranks, size_t rank) {
  std::vector<double> others;
  for (size_t round = 0; round < ranks[rank].size(); ++round) {
    std::vector<double> of_round;
    for (size_t other = 0; other < ranks.size(); ++other)
      if (other != rank) of_round.push_back(ranks[other][round]);
    others.push_back(median(of_round));
  }
  Estimate ratio = paired_ratio(ranks[rank], others);
  ratio.value -= 1;
  if (ratio.interval) ratio.interval = {ratio.interval->low - 1, ratio.interval->high - 1};
  return ratio;
}

namespace {

/// Seconds of each rank in the rounds in which others left every rank alone.
std::vector<std::vector<double>> undisturbed_rounds(const std::vector<const Series*>& ranks) {
  std::vector<std::vector<double>> seconds(ranks.size());
  for (size_t round = 0; round < ranks.front()->bursts.size(); ++round) {
    const auto alone = [round](const Series* rank) { return rank->bursts[round].left_alone; };
    if (!std::all_of(ranks.begin(), ranks.end(), alone)) continue;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      seconds[rank].push_back(ranks[rank]->bursts[round].fastest);
  }
  return seconds;
}

std::vector<Finding> judge_ranks(const Watched& watched) {
  if (const std::string why = watched.bench.why_no_ranks(); !why.empty())
    return {skipped_finding("ranks", "rank", why)};
  const std::vector<const Series*> all = watched.all(key_of_ranks);
  const std::vector<std::vector<double>> seconds = undisturbed_rounds(all);
  if (seconds.front().size() < interval_minimum)
    return {skipped_finding(
        "ranks", "rank", "too few rounds were left alone by others; " + watched.disturbance.text(),
        Disturbance::advice)};
  std::vector<Finding> checks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Estimate slower = slower_than_others(seconds, rank);
    Finding check{"ranks", all[rank]->key};
    const char* source = "the median of the other ranks, in the same rounds";
    check.expected = fmt::format("as long as {}", source);
    check.seen =
        fmt::format("{}: {:+.1f} % [{:+.1f}, {:+.1f}]", all[rank]->what, 100 * slower.value,
                    100 * slower.interval->low, 100 * slower.interval->high);
    check.band = fmt::format(
        "at most {:.0f} % longer, half of the 20 % that are to be found; and surely more than "
        "{:.0f} %",
        100 * slower_rank, 100 * surely_slower_rank);
    check.number = Finding::Number{"1", slower, {0, source}, slower_rank};
    if (is_slower_rank(slower)) {
      check.outcome = Finding::Outcome::failed;
      check.reason =
          fmt::format("rank {} takes {:.0f} % longer than the others", rank, 100 * slower.value);
      check.advice = "look at the clocks, temperature and neighbours of its device";
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace

bool is_slower_rank(const Estimate& slower) {
  return slower.value >= slower_rank && slower.interval->low > surely_slower_rank;
}

CheckGroup ranks_group() {
  return {.name = "ranks",
          .question = "is one rank slower than the others?",
          .probes = rank_probes,
          .judge = judge_ranks};
}

}  // namespace frugal::harness
