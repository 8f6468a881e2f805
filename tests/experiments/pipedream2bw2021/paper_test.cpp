#include "experiments/pipedream2bw2021/paper.h"

#include <gmock/gmock.h>

#include <cmath>

#include "experiments/artifacts.h"
#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::pipedream2bw2021 {
namespace {

double drawn(const std::string& artifact, const Statement::Ratio::Of& bar) {
  return paper().cell(artifact, bar.row, bar.column).value;
}

/// Which bars a statement is about is read into it: they have to give its number.
TEST(Paper, StatementsFollowFromItsOwnBars) {
  int ratios = 0;
  for (const Statement& one : paper().statements()) {
    if (!one.ratio) continue;
    ++ratios;
    const double stated = one.value.value();
    const double bars =
        drawn(one.ratio->artifact, one.ratio->of) / drawn(one.ratio->artifact, one.ratio->over);
    if (one.contradicted.empty())
      EXPECT_NEAR(bars / stated, 1, 0.05) << one.id;
    else
      EXPECT_GT(std::abs(bars / stated - 1), 0.1) << one.id;
  }
  EXPECT_EQ(ratios, 10);
}

TEST(Paper, UnknownSystemsAreErrors) { EXPECT_THROW(system_of("gpipe"), std::out_of_range); }

TEST(Timelines, EveryPassIsWhereTheFigureHasIt) {
  ASSERT_EQ(timelines().size(), 5U);
  for (const Artifact* artifact : timelines())
    for (const Claim& claim : artifact->claims({})) {
      EXPECT_EQ(claim.verdict(), Verdict::reproduced) << claim.id;
      EXPECT_GT(*claim.paper, 20);
    }
}

}  // namespace
}  // namespace frugal::experiments::pipedream2bw2021
