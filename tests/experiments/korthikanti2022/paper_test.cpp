#include "experiments/korthikanti2022/paper.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "experiments/artifacts.h"
#include "kernels/support/embedded.h"
#include "tests/experiments/synthetic.h"

namespace frugal::experiments::korthikanti2022 {
namespace {

using Names = std::set<std::pair<std::string, std::string>>;

nlohmann::json document() {
  return nlohmann::json::parse(embedded_file("experiments/korthikanti2022/paper.json").value());
}

/// Rows and columns of the cells that stand beside a number of the paper, when every case failed.
Names names_of_artifact(const Artifact& artifact) {
  const Records records = records_of(artifact, {.scale = std::nullopt}, [](Record& r) {
    r.status = Status::failed;
    r.reason = "made to fail";
  });
  Names names;
  for (const Cell& c : artifact.cells(records))
    if (c.paper) names.emplace(c.row, c.column);
  return names;
}

TEST(Paper, NoCellTwice) {
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const PaperCell& c : paper_cells())
    EXPECT_TRUE(seen.emplace(c.artifact, c.row, c.column).second)
        << c.artifact << " " << c.row << " " << c.column;
}

TEST(Paper, ArtifactsOfFormulasHaveARowForEachAndAColumnForEachModel) {
  const nlohmann::json paper = document();
  const auto expected = [&](const char* artifact) {
    Names names;
    for (const auto& [row, formula] : paper.at("artifacts").at(artifact).at("formulas").items())
      for (const Model& m : models()) names.emplace(row, m.config.name);
    return names;
  };
  EXPECT_EQ(names_of_artifact(table2()), expected("table2"));
  EXPECT_EQ(names_of_artifact(parts_of_a_layer()), expected("section4.1"));
}

TEST(Paper, UnknownNamesAreErrors) {
  EXPECT_THROW(paper_cell("table4", "baseline", "overhead"), std::out_of_range);
  EXPECT_EQ(find_paper_cell("table4", "baseline", "overhead"), nullptr);
  EXPECT_THROW(model("22b"), std::out_of_range);
  EXPECT_THROW(statement("?"), std::out_of_range);
}

TEST(Paper, ContradictionsAreListed) { EXPECT_EQ(contradictions().size(), 6U); }

}  // namespace
}  // namespace frugal::experiments::korthikanti2022
