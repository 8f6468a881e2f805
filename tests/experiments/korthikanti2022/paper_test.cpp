#include "experiments/korthikanti2022/paper.h"

#include <gmock/gmock.h>
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

Names names_in_paper(const std::string& artifact) {
  Names names;
  for (const PaperCell& c : paper_cells())
    if (c.artifact == artifact) names.emplace(c.row, c.column);
  return names;
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

TEST(Paper, EveryCellIsReachable) {
  size_t cells = 0;
  const nlohmann::json paper = document();
  for (const auto& [artifact, content] : paper.at("artifacts").items())
    for (const auto& json : content.value("cells", nlohmann::json::array())) {
      const auto row = json.at("row").get<std::string>();
      const auto column = json.at("column").get<std::string>();
      EXPECT_EQ(paper_cell(artifact, row, column).value, json.at("value").get<double>());
      ++cells;
    }
  EXPECT_EQ(cells, paper_cells().size());
  // Table 4, table 5, figure 7, section 5, section 4.3, figure 1, figure 9, appendix B, figure 8,
  // section 6.3, appendix C.
  EXPECT_EQ(cells, 19U + 20U + 16U + 8U + 1U + 12U + 12U + 1U + 32U + 4U + 4U);
}

TEST(Paper, NoCellTwice) {
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const PaperCell& c : paper_cells())
    EXPECT_TRUE(seen.emplace(c.artifact, c.row, c.column).second)
        << c.artifact << " " << c.row << " " << c.column;
}

/// A digitized one what it was read to, which stands with it; a printed one half its last digit.
TEST(Paper, ValuesCarryTheirUncertainty) {
  const nlohmann::json paper = document();
  for (const auto& [artifact, content] : paper.at("artifacts").items())
    for (const auto& json : content.value("cells", nlohmann::json::array())) {
      EXPECT_THAT(json.at("read"), ::testing::AnyOf("printed", "digitized", "derived"));
      if (json.at("read") == "digitized") {
        EXPECT_TRUE(json.contains("uncertainty")) << json;
      }
    }
  for (const PaperCell& c : paper_cells())
    EXPECT_GT(c.uncertainty, 0) << c.artifact << " " << c.row;
  EXPECT_EQ(paper_cell("table4", "baseline", "forward").uncertainty, 0.05);
  EXPECT_EQ(paper_cell("section5", "175B", "activation memory saved").uncertainty, 0.5);
}

TEST(Paper, ArtifactsHaveTheRowsAndColumnsOfThePaper) {
  EXPECT_EQ(names_of_artifact(table4()), names_in_paper("table4"));
  EXPECT_EQ(names_of_artifact(table5()), names_in_paper("table5"));
  EXPECT_EQ(names_of_artifact(figure7()), names_in_paper("figure7"));
  EXPECT_EQ(names_of_artifact(section5()), names_in_paper("section5"));
  EXPECT_EQ(names_of_artifact(outside()), names_in_paper("section4.3"));
  EXPECT_EQ(names_of_artifact(figure1()), names_in_paper("figure1"));
  EXPECT_EQ(names_of_artifact(figure9()), names_in_paper("figure9"));
  EXPECT_EQ(names_of_artifact(appendix_b()), names_in_paper("appendixB"));
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

TEST(Paper, ModelsFitTheirMachines) {
  ASSERT_EQ(models().size(), 4U);
  for (const Model& m : models()) {
    EXPECT_EQ(m.tensor_parallel * m.pipeline_parallel, m.gpus) << m.config.name;
    EXPECT_EQ(m.global_batch % m.micro_batch, 0) << m.config.name;
    EXPECT_EQ(m.config.layers % (m.pipeline_parallel * m.interleave), 0) << m.config.name;
  }
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
