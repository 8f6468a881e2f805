#include "harness/measure/runs/longest.h"

#include <gmock/gmock.h>

#include <random>

#include "harness/measure/runs/training.h"
#include "harness/place/target.h"
#include "harness/report/commands/longest_report.h"
#include "kernels/support/error.h"
#include "tests/harness/support.h"

namespace frugal::harness {
namespace {

/// What every search promises, of any set of numbers: checked one by one.
void expect_promise(const std::vector<bool>& fits, int64_t least_refused) {
  const auto most = static_cast<int64_t>(fits.size());
  const auto fit = [&](int64_t n) { return fits.at(static_cast<size_t>(n - 1)); };
  const Limit limit = greatest_that_fits(most, least_refused, fit);
  const Limit together = greatest_that_fits(most, least_refused, fit, 3);
  EXPECT_EQ(together.value, limit.value);
  EXPECT_EQ(together.refused, limit.refused);
  ASSERT_LE(limit.value + limit.refused, most);
  EXPECT_TRUE(limit.value == 0 || fit(limit.value));
  for (int64_t i = 1; i <= limit.refused; ++i) EXPECT_FALSE(fit(limit.value + i));
  EXPECT_GE(limit.refused, std::min({least_refused, most - limit.value}));
  EXPECT_TRUE(limit.refused > 0 || limit.value == most || least_refused == 0);
}

TEST(GreatestThatFits, IsTheEndOfAnInterval) {
  for (int64_t most = 1; most <= 40; ++most)
    for (int64_t end = 0; end <= most; ++end) {
      const Limit limit = greatest_that_fits(most, 1, [&](int64_t n) { return n <= end; });
      EXPECT_EQ(limit.value, end);
      EXPECT_EQ(limit.refused, end < most ? 1 : 0);
    }
}

TEST(GreatestThatFits, KeepsItsPromiseWhateverFits) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<bool> fits(1 + random() % 60);
    const auto density = static_cast<double>(random() % 11) / 10;
    for (size_t i = 0; i < fits.size(); ++i) fits[i] = std::bernoulli_distribution(density)(random);
    expect_promise(fits, static_cast<int64_t>(random() % 9));
  }
}

TEST(GreatestThatFits, FindsWhatFitsBehindAGapThatIsNotLonger) {
  const auto fits = [](int64_t n) { return n <= 10 || (n >= 14 && n <= 16); };
  EXPECT_EQ(greatest_that_fits(100, 3, fits).value, 10);
  const Limit limit = greatest_that_fits(100, 4, fits);
  EXPECT_EQ(limit.value, 16);
  EXPECT_EQ(limit.refused, 4);
}

RunConfig small() {
  RunConfig c = testing::tiny();
  c.model.layers = 2;
  c.model.dropout = 0;
  c.attention = AttentionKind::fused;
  return c;
}

RunConfig in_parts() {
  RunConfig c = small();
  c.recompute = Recompute::full;
  c.mlp_chunks = 7;
  c.head_chunks = 5;
  return c;
}

int64_t peak_of(const RunConfig& config) {
  const auto place = make_target({.on = "virtual"});
  const Target& target = *place;
  return take_step(*target.cluster_with(config, std::numeric_limits<int64_t>::max()), config,
                   default_optimizer(config))
      .memory.peak_total;
}

/// Against the peak of every length up to twice the longest.
void expect_brute_force(const RunConfig& config, int64_t capacity) {
  const StepOf step{config, default_optimizer(config)};
  const LongestSequence longest =
      longest_sequence(step, make_target({.on = "virtual"})->counterpart(capacity));
  const int64_t unit = step.granularity();
  EXPECT_EQ(longest.tokens % unit, 0);
  EXPECT_EQ(longest.memory.peak_total, peak_of(step.with(longest.tokens)));
  EXPECT_LE(longest.memory.peak_total, capacity);
  EXPECT_GE(longest.refused, lengths_refused);
  int64_t greatest = 0;
  for (int64_t n = unit; n <= 2 * longest.tokens; n += unit)
    if (peak_of(step.with(n)) <= capacity) greatest = n;
  EXPECT_EQ(longest.tokens, greatest);
}

TEST(LongestSequence, IsWhatAScanOfAllLengthsFinds) {
  expect_brute_force(small(), 200000);
  expect_brute_force(in_parts(), 200000);
  RunConfig shared = small();
  shared.tensor_parallel = 2;
  shared.sequence_parallel = true;
  expect_brute_force(shared, 150000);
  RunConfig separate = small();
  separate.attention = AttentionKind::separate;
  expect_brute_force(separate, 150000);
  RunConfig early = in_parts();
  early.step_in_backward = true;
  expect_brute_force(early, 200000);
}

/// That memory is not monotone is why lengths behind a refused one are tried.
TEST(LongestSequence, MayLieBehindLengthsThatDoNotFit) {
  const auto peak = [](int64_t n) { return peak_of(StepOf{in_parts(), {}}.with(n)); };
  int64_t falls = 0;
  for (int64_t n = 40; n < 120; ++n)
    if (peak(n + 1) < peak(n)) {
      falls = n;
      break;
    }
  ASSERT_GT(falls, 0);
  expect_brute_force(in_parts(), peak(falls + 1));
}

/// With an allocator that fragments, of lengths of two digits.
TEST(LongestSequence, IsTheGreatestOfTwoDigitsThatFragmentsLetFit) {
  RunConfig config = in_parts();
  config.model.vocabulary = 5000;
  const Machine machine = make_target({.on = "virtual"})->counterpart(int64_t{150} << 20);
  const StepOf free{config, {}};
  config.program.device.caching_allocator = true;
  const StepOf step{config, {}};
  const int64_t limit = longest_sequence(free, machine).tokens;
  const LongestSequence longest = longest_sequence(step, machine);
  const auto fits = [&](int64_t tokens) {
    try {
      const RunConfig c = step.with(tokens);
      take_step(*make_virtual_cluster(c, machine), c, {});
      return true;
    } catch (const OutOfMemory&) {
      return false;
    }
  };
  int64_t unit = 1;
  while (limit / unit >= 100) unit *= 10;
  EXPECT_EQ(longest.granularity, unit);
  int64_t tokens = limit / unit * unit;
  while (!fits(tokens)) tokens -= unit;
  EXPECT_EQ(longest.tokens, tokens);
  EXPECT_LT(longest.tokens, limit / unit * unit) << "fragments take something";
  EXPECT_EQ(longest.refused, (limit / unit * unit - tokens) / unit + 1);
  EXPECT_FALSE(longest.refused_because.empty());
}

TEST(LongestSequence, IsALowerBoundWhereAConfigurationMayHaveNoMore) {
  RunConfig config = small();
  config.model.layers = 1;
  const Machine machine = make_target({.on = "virtual"})->counterpart(int64_t{1} << 60);
  const LongestSequence longest = longest_sequence({config, {}}, machine);
  EXPECT_TRUE(longest.at_least());
  EXPECT_EQ(longest.tokens, 1 << 24);
}

TEST(LongestSequence, SaysWhatIsMissingWhereNothingFits) {
  EXPECT_THROW(longest_sequence({small(), {}}, make_target({.on = "virtual"})->counterpart(1000)),
               OutOfMemory);
  RunConfig wrong = small();
  wrong.tensor_parallel = 3;
  EXPECT_THROW(longest_sequence({wrong, {}}, make_target({.on = "virtual"})->counterpart(1 << 20)),
               InputError);
}

/// The processor takes what its virtual counterpart counts, to the byte.
TEST(LongestSequence, FitsRealMemoryOfTheSameSizeAndNoLongerOneDoes) {
  const auto place = make_target({.on = "cpu"});
  const Target& target = *place;
  const int64_t capacity = 300000;
  for (const RunConfig& config : {small(), in_parts()}) {
    const StepOf step{config, {}};
    const LongestSequence longest = longest_sequence(step, target.counterpart(capacity));
    const auto run = [&](int64_t tokens) {
      const RunConfig c = step.with(tokens);
      return take_step(*target.cluster_with(c, capacity), c, {}).memory.peak_total;
    };
    EXPECT_EQ(run(longest.tokens), longest.memory.peak_total);
    EXPECT_THROW(run(longest.tokens + 1), OutOfMemory);
  }
}

}  // namespace
}  // namespace frugal::harness
