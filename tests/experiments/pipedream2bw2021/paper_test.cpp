#include "experiments/pipedream2bw2021/paper.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "experiments/pipedream2bw2021/artifacts.h"
#include "experiments/pipedream2bw2021/systems.h"
#include "experiments/pipedream2bw2021/training_figure.h"
#include "tests/experiments/synthetic.h"

namespace frugal::pipedream2bw2021 {
namespace {

const PaperCell& cell_of(const nlohmann::json& ratio, const char* which) {
  return paper().cell(ratio.at("artifact").get<std::string>(),
                      ratio.at(which).at(0).get<std::string>(),
                      ratio.at(which).at(1).get<std::string>());
}

/// Which bars a statement is about is read into it: they have to give its number.
TEST(Paper, StatementsFollowFromItsOwnBars) {
  int ratios = 0;
  for (const auto& json : paper().document().at("statements")) {
    if (!json.contains("ratio")) continue;
    ++ratios;
    const nlohmann::json& ratio = json.at("ratio");
    const double stated = json.at("value");
    const double drawn = cell_of(ratio, "of").value / cell_of(ratio, "over").value;
    if (json.contains("contradicted"))
      EXPECT_GT(std::abs(drawn / stated - 1), 0.1) << json.at("id");
    else
      EXPECT_NEAR(drawn / stated, 1, 0.05) << json.at("id");
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
    EXPECT_EQ(m.sequence, paper().document().at("setup").at("sequence"));
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
}  // namespace frugal::pipedream2bw2021
