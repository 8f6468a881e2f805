#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "tests/engine/plan/support.h"

/// Tests of what a brief search (PlanRequest::brief) may leave out, and what not.
namespace frugal::engine {
namespace {

using testing::flush;
using testing::plan_request;
using testing::planned_gpt;

std::tuple<int, int, int, int64_t, Recompute, Shard, bool, std::string_view> ways_of(
    const Candidate& c) {
  return {c.run.tensor_parallel, c.run.data_parallel, c.run.pipeline_parallel, c.run.micro_batch,
          c.run.recompute,       c.run.shard,         c.run.offload,           c.run.schedule.name};
}

/// Compares both searches where much is recomputed, offloaded and shared, and where all fits.
TEST(Search, ABriefOneFindsTheSameFirstChoiceOnAnyNumberOfThreads) {
  PlanRequest asked = plan_request(planned_gpt(4, 1024, 16), "h100-dgx", 4, 8, flush);
  asked.run.model.sequence = 4096;
  asked.run.model.dropout = 0;
  asked.run.attention = AttentionKind::fused;
  asked.run.sequence_parallel = true;
  asked.tensor = {1, 2};
  asked.search_all();
  asked.schedules = {flush, ScheduleKind::zero_bubble_v, ScheduleKind::interleaved};
  asked.contexts = {{}, {2, ContextKind::ulysses}};
  asked.within = 1.5;
  std::set<std::string> ways;
  for (const double share : {1.0, 0.04, 0.025, 0.015}) {
    asked.memory = static_cast<int64_t>(share * static_cast<double>(asked.machine.memory_capacity));
    asked.brief = false;
    const Candidate best = search(asked).fitting.front();
    asked.brief = true;
    for (const int threads : {1, 3}) {
      asked.threads = threads;
      const Candidate brief = search(asked).fitting.front();
      EXPECT_EQ(brief.prediction.seconds, best.prediction.seconds) << share;
      EXPECT_EQ(ways_of(brief), ways_of(best)) << share;
    }
    asked.threads = 1;
    if (best.run.recompute != Recompute::none) ways.insert("recomputes");
    if (best.run.offload) ways.insert("offloads");
    if (best.run.shard != Shard::none) ways.insert("divides");
  }
  EXPECT_GE(ways.size(), 2U) << "nothing was left out that mattered";
}

/// Everything that a plan says. Turns end in another order each time.
TEST(Search, ABriefOneLeavesOutTheSameOnAnyNumberOfThreads) {
  PlanRequest asked = plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 16, 32, flush);
  asked.run.model.sequence = 4096;
  asked.search_all();
  asked.brief = true;
  asked.within = 1.1;
  asked.memory = asked.machine.memory_capacity / 25;
  const auto said = [&](int threads) {
    asked.threads = threads;
    const Plan plan = search(asked);
    std::vector<std::tuple<size_t, double, int64_t, decltype(ways_of(plan.fitting.front()))>> list;
    for (const auto* found : {&plan.fitting, &plan.too_large})
      for (const Candidate& c : *found)
        list.emplace_back(c.turn, c.prediction.seconds, c.missing, ways_of(c));
    return std::tuple(list, plan.slower, plan.hopeless, plan.refused, plan.first_rule);
  };
  const auto alone = said(1);
  EXPECT_GT(std::get<1>(alone), 0);
  for (const int threads : {2, 8, 8, 16}) EXPECT_EQ(said(threads), alone) << threads;
}

/// Weights alone are too much: what is closest is said all the same.
TEST(Search, ABriefOneSaysHowMuchIsMissingAtLeast) {
  PlanRequest asked = plan_request(planned_gpt(8, 1024, 16), "h100-dgx", 2, 4, flush);
  asked.search_all();
  asked.within = 1.1;
  asked.memory = 1 << 20;
  const auto closest = [&] {
    const Plan plan = search(asked);
    EXPECT_TRUE(plan.fitting.empty());
    return std::ranges::min(plan.too_large, {}, &Candidate::missing).missing;
  };
  const int64_t full = closest();
  asked.brief = true;
  EXPECT_EQ(closest(), full);
}

/// Parts of a sequence of which every rank could have as many tokens with fewer ranks.
TEST(Search, ABriefOneSharesNoMoreThanOneSequence) {
  PlanRequest asked = plan_request(planned_gpt(8, 256, 4), "h100-dgx", 8, 32, flush);
  asked.run.model.dropout = 0;
  asked.run.attention = AttentionKind::fused;
  asked.contexts = asked.sharings(asked.balanced_contexts());
  const auto both_above_one = [&] {
    int64_t count = 0;
    for (const Candidate& c : search(asked).fitting)
      count += c.run.context_parallel > 1 && c.run.micro_batch > 1 ? 1 : 0;
    return count;
  };
  EXPECT_GT(both_above_one(), 0);
  asked.brief = true;
  EXPECT_EQ(both_above_one(), 0);
  asked.contexts = {{2, ContextKind::ulysses}};  // no fewer were asked for
  EXPECT_GT(both_above_one(), 0);
}

}  // namespace
}  // namespace frugal::engine
