#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "harness/measure/runner.h"
#include "harness/record/cell.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

constexpr int measurements = 10000;

/// Two cases timed by turns: a round is slow for both alike, and each has noise of its own, now and
/// then much of it.
class Rounds {
 public:
  Rounds(double overhead, uint64_t seed) : overhead_(overhead), random_(seed) {}

  void time() {
    const double slow = std::exp(0.3 * std::abs(normal()));
    base_.push_back(slow * noise());
    ours_.push_back((1 + overhead_ / 100) * slow * noise());
  }

  /// The overhead in percent, beside the paper's 39 ± 1.
  Claim claim() const {
    Claim claim;
    claim.source = Source::measured;
    claim.timed = true;
    claim.paper = 39;
    claim.tolerance = 1;
    claim.no_effect = 0;
    Estimate estimate = exact_ratio(ours_, base_);
    const auto percent = [](double& ratio) { ratio = 100 * ratio - 100; };
    percent(estimate.value);
    for (std::optional<Interval>* of : {&estimate.interval, &estimate.early})
      if (*of) percent((*of)->low), percent((*of)->high);
    claim.set(estimate);
    return claim;
  }

 private:
  double normal() {
    const auto uniform = [&] {
      return (static_cast<double>(random_() >> 11U) + 0.5) / 9007199254740992.0;
    };
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform());
  }
  double noise() { return std::exp((random_() % 10 == 0 ? 0.05 : 0.01) * normal()); }

  double overhead_;
  std::mt19937_64 random_;
  std::vector<double> base_, ours_;
};

/// Shares of the measurements.
struct Shares {
  double reproduced = 0, not_reproduced = 0, undecided = 0;

  void count(Verdict verdict) {
    (verdict == Verdict::reproduced       ? reproduced
     : verdict == Verdict::not_reproduced ? not_reproduced
                                          : undecided) += 1.0 / measurements;
  }
};

Shares after(int rounds, double overhead) {
  Shares shares;
  for (int i = 0; i < measurements; ++i) {
    Rounds timed(overhead, static_cast<uint64_t>(i));
    for (int round = 0; round < rounds; ++round) timed.time();
    shares.count(timed.claim().verdict());
  }
  return shares;
}

/// Shares of verdicts, timed as `frugal reproduce` does: until decided, or for `most` rounds.
template <class Decided>
Shares until(const Decided& decided, int most, double overhead) {
  Shares shares;
  for (int i = 0; i < measurements; ++i) {
    Rounds timed(overhead, static_cast<uint64_t>(i));
    int kept = 0;
    time_interleaved(
        {[&](bool) {
          timed.time();
          ++kept;
        }},
        {.warm_up = 0, .samples = 10, .budget = 1.0 * most, .stop = "decided"},
        [&] { return kept; }, {}, [&] { return decided(timed.claim()); });
    shares.count(timed.claim().verdict());
  }
  return shares;
}

constexpr double at_most = 0.05;

TEST(Verdicts, AreRarelyWrongAfterAnyNumberOfRounds) {
  for (const int rounds : {6, 10, 20}) {
    for (const double outside : {40.0, 40.5, 37.5, 43.0}) {
      EXPECT_LE(after(rounds, outside).reproduced, at_most) << outside << ", " << rounds;
    }
    for (const double inside : {40.0, 39.5, 38.5, 39.0}) {
      EXPECT_LE(after(rounds, inside).not_reproduced, at_most) << inside << ", " << rounds;
    }
  }
}

/// A rule by which nothing is decided is never wrong.
TEST(Verdicts, AreMostlyRightAfterEnoughRounds) {
  EXPECT_GE(after(160, 39).reproduced, 0.9);
  EXPECT_GE(after(160, 42).not_reproduced, 0.9);
  EXPECT_GE(after(10, 39).undecided, 0.5);
}

/// The value alone says "reproduced" of every second measurement at the edge.
TEST(Verdicts, OfTheValueAloneWouldOftenBeWrong) {
  int reproduced = 0;
  for (int i = 0; i < measurements; ++i) {
    Rounds timed(40, static_cast<uint64_t>(i));
    for (int round = 0; round < 10; ++round) timed.time();
    Claim claim = timed.claim();
    claim.interval.reset();
    claim.timed = false;
    reproduced += claim.verdict() == Verdict::reproduced ? 1 : 0;
  }
  EXPECT_NEAR(reproduced / double{measurements}, 0.5, 0.05);
}

TEST(Verdicts, AreRarelyWrongWhereRoundsGoOnUntilTheyAreDecided) {
  const auto early = [](const Claim& claim) { return claim.is_decided_early(); };
  constexpr int most = 320;
  for (const double edge : {38.0, 40.0}) {
    const Shares shares = until(early, most, edge);
    EXPECT_LE(shares.reproduced, at_most) << edge;
    EXPECT_LE(shares.not_reproduced, at_most) << edge;
  }
  EXPECT_GE(until(early, most, 39).reproduced, 0.95);
}

/// Six looks at the 95 % interval err in more than 5 % of all measurements.
TEST(Verdicts, OfEveryLookAtTheSameIntervalWouldTooOftenBeWrong) {
  const auto peeking = [](const Claim& claim) { return claim.verdict() != Verdict::undecided; };
  const Shares shares = until(peeking, 320, 40);
  EXPECT_GT(shares.reproduced, at_most);
  EXPECT_GT(shares.not_reproduced, at_most);
}

TEST(Runner, GoesOnWhileAVerdictIsUndecided) {
  RecordFile in_memory;
  Progress silent;
  std::vector<size_t> looks;
  Runner runner(in_memory, silent,
                {.timing = {.warm_up = 1, .samples = 10, .budget = 1e9, .stop = "decided"},
                 .decided = [&](const Records& so_far) {
                   looks.push_back(so_far.all().at(1).samples(metric::forward_time).size());
                   return looks.size() == 2;
                 }});
  Case a{.id = "a", .config = testing::tiny(), .workload = workload::ModuleTime{}, .on = "cpu"};
  a.config.type = DType::f64;
  Case b = a;
  b.id = "b";
  const Records records = runner.run("paper/table", {a, b});
  EXPECT_EQ(looks, (std::vector<size_t>{10, 20}));
  for (const Record& r : records.all())
    EXPECT_EQ(r.samples(metric::backward_time).size(), 20U) << r.case_id;
}

}  // namespace
}  // namespace frugal::harness
