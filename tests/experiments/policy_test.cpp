#include "experiments/policy.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "kernels/support/error.h"

namespace frugal::experiments::policy {
namespace {

constexpr double half = 0.5;

TEST(Policy, AUnitSaysHowANumberComesAbout) {
  for (const char* unit : {"s", "ms", "seqs/s", "tokens/s"}) EXPECT_EQ(made(unit, ""), Made::timed);
  for (const char* unit : {"x", "%"}) EXPECT_EQ(made(unit, ""), Made::compared);
  for (const char* unit : {"bytes", "GiB", "K tokens"}) EXPECT_EQ(made(unit, ""), Made::counted);
  EXPECT_EQ(made("%", "counted"), Made::counted);
  EXPECT_EQ(made("GiB", "measured"), Made::measured);
  EXPECT_EQ(made("s", "measured"), Made::timed);
  EXPECT_THROW(made("GiB", "guessed"), InputError);
}

TEST(Policy, CountsAreAsPreciseAsThePaper) {
  EXPECT_EQ(tolerance({.made = Made::counted, .value = 1000, .unit = "bytes"}).value, 0);
  EXPECT_EQ(
      tolerance({.made = Made::counted, .value = 2.73, .unit = "GiB", .uncertainty = 0.005}).value,
      0.005);
}

TEST(Policy, TimesAreWithinAPartOfThem) {
  EXPECT_DOUBLE_EQ(tolerance({.made = Made::timed, .value = 40, .unit = "s"}).value, 40 * of_timed);
}

/// "1.15 times" is not met by 0.98, an overhead of 1.7 points not by anything within 3, and a gain
/// of 0.4 not by anything within 0.5.
TEST(Policy, NoToleranceIsMoreThanHalfOfTheEffect) {
  const Judged times{
      .made = Made::compared, .value = 1.15, .unit = "x", .no_effect = NoEffect{.value = 1}};
  EXPECT_NEAR(tolerance(times).value, half * 0.15, 1e-12);
  EXPECT_THAT(tolerance(times).justification, ::testing::HasSubstr("half of the effect"));
  const Judged overhead{
      .made = Made::compared, .value = 101.74, .unit = "%", .no_effect = NoEffect{.value = 100}};
  EXPECT_NEAR(tolerance(overhead).value, of_compared * 1.74, 1e-12);
  const Judged gain{.made = Made::compared, .value = 0.4, .unit = "%", .uncertainty = 0.05};
  EXPECT_EQ(tolerance(gain).value, 0.05);
  // Printed to a whole percent, but the effect is only two of them.
  const Judged coarse{.made = Made::compared, .value = 2, .unit = "%", .uncertainty = 5};
  EXPECT_EQ(tolerance(coarse).value, 1);
}

TEST(Policy, RatiosMayBeATenthOff) {
  const Judged ratio{
      .made = Made::compared, .value = 20, .unit = "x", .no_effect = NoEffect{.value = 1}};
  EXPECT_DOUBLE_EQ(tolerance(ratio).value, 2);
}

Comparison judged(const Judged& number, const std::optional<Tolerance>& stated = {}) {
  Comparison comparison;
  comparison.paper = number.value;
  judge(comparison, number, stated);
  return comparison;
}

/// Whatever a number is, its verdict is not "reproduced" where there is no effect.
TEST(Policy, NothingPassesWithoutEffect) {
  std::mt19937_64 random(20261125);
  std::uniform_real_distribution<double> draw(-10, 10);
  for (int i = 0; i < 10000; ++i) {
    const Judged number{.made = static_cast<Made>(i % 4),
                        .value = draw(random),
                        .unit = i % 3 == 0 ? "x" : "%",
                        .uncertainty = std::abs(draw(random)),
                        .no_effect = NoEffect{draw(random), i % 5 == 0}};
    Comparison claim = judged(number, Tolerance{std::abs(draw(random)), "stated"});
    EXPECT_FALSE(claim.passes_without_effect()) << i;
    claim.value = number.no_effect.value;
    EXPECT_EQ(claim.verdict(), Verdict::not_reproduced) << i;
  }
}

TEST(Policy, AStatedToleranceCountsWhereItIsNarrower) {
  const Judged number{.made = Made::timed, .value = 100, .unit = "s"};
  EXPECT_EQ(judged(number, Tolerance{1, "known"}).tolerance, 1);
  EXPECT_EQ(judged(number, Tolerance{1, "known"}).justification, "known");
  EXPECT_EQ(judged(number, Tolerance{50, "wide"}).tolerance, 100 * of_timed);
}

/// A scale model keeps ratios of memory and of FLOPs, not how large an effect on times is.
TEST(Policy, OfTimesAtReducedSizeTheDirectionIsJudged) {
  const Judged number{.made = Made::compared, .value = -3, .unit = "%"};
  Comparison measured;
  measured.paper = -3;
  measured.source = Source::measured;
  measured.scale = 8;
  Comparison full = measured, simulated = measured, counted = measured, unpublished = measured;
  full.scale = 1;
  simulated.source = Source::simulated;
  unpublished.paper.reset();
  for (Comparison* one : {&measured, &full, &simulated, &unpublished}) judge(*one, number);
  judge(counted, {.made = Made::counted, .value = -3, .unit = "%", .uncertainty = 0.5});
  using R = Comparison::Relation;
  EXPECT_EQ(measured.relation, R::direction);
  EXPECT_THAT(measured.justification, ::testing::HasSubstr("1/8"));
  for (const Comparison* one : {&full, &simulated, &counted, &unpublished})
    EXPECT_EQ(one->relation, R::about);
  EXPECT_TRUE(full.timed);
  EXPECT_FALSE(counted.timed);
  set_relation(measured, R::at_least);
  EXPECT_EQ(measured.relation, R::direction);
  set_relation(full, R::at_least);
  EXPECT_EQ(full.relation, R::at_least);
}

TEST(Policy, ItsPageHasItsNumbers) {
  EXPECT_THAT(markdown(),
              ::testing::HasSubstr("| timed | seconds, and what is done in one | 5 % |"));
}

}  // namespace
}  // namespace frugal::experiments::policy
