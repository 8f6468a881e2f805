#include "experiments/pipedream2bw2021/paper.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

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

TEST(Paper, FiguresHaveThePapersRowsAndColumns) {
  std::vector<const Artifact*> all = throughputs();
  for (const Artifact* one : footprints()) all.push_back(one);
  all.insert(all.end(), {&figure8(), &figure9(), &figure12()});
  Selection selection;
  for (const Artifact* artifact : all) {
    using Names = std::set<std::pair<std::string, std::string>>;
    Names ours, theirs;
    const Records records = records_of(*artifact, selection, [](Record& r) {
      r.status = Status::failed;
      r.reason = "made to fail";
    });
    for (const Cell& cell : artifact->cells(records)) {
      EXPECT_EQ(cell.reason, "made to fail");
      if (!cell.row.starts_with("GPipe, ")) ours.emplace(cell.row, cell.column);
      EXPECT_TRUE(cell.paper || cell.paper_oom) << cell.row << " " << cell.column;
    }
    for (const PaperCell& cell : cells_of(artifact->id().substr(artifact->id().find('/') + 1)))
      theirs.emplace(cell.row, cell.column);
    EXPECT_EQ(ours, theirs) << artifact->id();
    EXPECT_FALSE(theirs.empty());
  }
}

/// The microbatch that the paper's own times follow from (its calibration notes).
TEST(Paper, TheMicrobatchIsEightEverywhere) {
  for (const char* name :
       {"figure6a", "figure6b", "figure6c", "figure7", "figure10a", "figure10b", "figure10c"})
    EXPECT_EQ(largest_microbatch(setup_of(name), cells_of(name)), 8) << name;
}

TEST(Paper, ModelsAreGptsAndBertsOfThePapersShapes) {
  const std::pair<const char*, int64_t> parts[] = {{"figure6a", 2304}, {"figure10c", 3072}};
  for (const auto& [name, hidden] : parts) {
    const ModelConfig m = setup_of(name).model;
    EXPECT_EQ(m.hidden, hidden);
    EXPECT_EQ(m.sequence, paper().setup().require<int64_t>("sequence"));
    EXPECT_EQ(m.causal, std::string_view(name).starts_with("figure6"));
    EXPECT_EQ(m.vocabulary, m.causal ? 50304 : 30592);
  }
  EXPECT_THROW(system_of("gpipe"), std::out_of_range);
}

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
