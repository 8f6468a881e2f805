#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "experiments/artifacts.h"
#include "experiments/mst2024/paper.h"
#include "harness/measure/runner.h"
#include "tests/harness/support.h"

/// Tables 6, 8 to 11 and 13 to 16 and figures 3 and 11, executed at full size on the paper's
/// machine, virtually.
namespace frugal::experiments::mst2024 {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

std::vector<const Artifact*> artifacts() {
  std::vector<const Artifact*> all = memory_in_peak();
  for (const Artifact* artifact : modules()) all.push_back(artifact);
  all.push_back(&table6());
  return all;
}

Records executed(const Artifact& artifact, const Selection& selection) {
  const testing::Folder folder;
  RecordFile file(folder / "");
  const std::vector<Case> cases = artifact.cases(selection);
  Progress progress(cases.size());
  return Runner(file, progress, {.command = "frugal test"}).run(artifact.id(), cases);
}

Selection virtually(std::optional<int64_t> scale = {}) {
  return {.virtual_machine = true, .cpu = false, .cuda = {}, .scale = scale};
}

/// What an artifact of this name gives at full size, by row and column.
using Cells = std::map<std::pair<std::string, std::string>, Cell>;
const Cells& cells_of(const std::string& name) {
  static std::map<std::string, Cells> all;
  if (all.empty())
    for (const Artifact* artifact : artifacts()) {
      const Records records = executed(*artifact, virtually());
      for (const Cell& cell : artifact->cells(records))
        all[artifact->id()][{cell.row, cell.column}] = cell;
    }
  return all.at(std::string(paper_id) + "/" + name);
}
double value(const std::string& name, const std::string& row, const std::string& column) {
  return cells_of(name).at({row, column}).value.value();
}

/// No number of the paper is left out, and where ours is another one a reason is given.
TEST(Peaks, EveryNumberOfThePaperHasOneOfOurs) {
  for (const Artifact* artifact : artifacts()) {
    const std::string name = artifact->id().substr(artifact->id().find('/') + 1);
    const Cells& cells = cells_of(name);
    for (const PaperCell& theirs : paper().cells_of(name)) {
      ASSERT_TRUE(cells.contains({theirs.row, theirs.column})) << name << " " << theirs.row;
      const Cell& ours = cells.at({theirs.row, theirs.column});
      ASSERT_TRUE(ours.value) << ours.reason;
      EXPECT_EQ(ours.paper, theirs.value) << theirs.row << " " << theirs.column;
      EXPECT_EQ(ours.unit, theirs.unit);
      const double error = ours.error_percent() ? *ours.error_percent() : *ours.error_points();
      EXPECT_TRUE(std::abs(error) <= 10 || !ours.reason.empty())
          << ours.artifact << ", " << ours.row << ", " << ours.column;
    }
  }
}

TEST(Peaks, ClaimsThatAreNotReproducedSayWhy) {
  std::set<std::string> reproduced;
  for (const Artifact* artifact : artifacts())
    for (const Claim& claim : artifact->claims(executed(*artifact, virtually()))) {
      EXPECT_NE(claim.verdict(), Verdict::not_measurable) << claim.id;
      if (claim.verdict() == Verdict::reproduced)
        reproduced.insert(claim.id);
      else
        EXPECT_NE(claim.reason, "") << claim.id;
    }
  for (const char* id : {"table14/standard/80000", "tables8-11/vanilla/weight",
                         "tables8-11/vanilla/optimizer state", "tables8-11/vanilla/gradient"})
    EXPECT_TRUE(reproduced.contains(id)) << id;
}

/// Two bytes for each parameter, weights and two moments; columns add up to the peak, where
/// gradients are among the activations.
TEST(Tables8To11, AreTheLedgersAtThePeak) {
  constexpr double parameters = 8030261248;
  for (const char* row :
       {"vanilla", "optimizer in backward", "activation recomputation", "mini-sequence"}) {
    const auto of = [&](const char* column) { return value("tables8-11", row, column); };
    EXPECT_NEAR(of("weight"), 2 * parameters / gib, 1e-3) << row;
    EXPECT_NEAR(of("optimizer state"), 4 * parameters / gib, 1e-3) << row;
    const double gradient = std::string(row) == "vanilla" ? of("gradient") : 0;
    EXPECT_NEAR(of("activation") + of("weight") + gradient + of("optimizer state"), of("peak"),
                1e-9)
        << row;
  }
  EXPECT_NEAR(value("tables8-11", "vanilla", "gradient"), 2 * parameters / gib, 1e-3);
  EXPECT_EQ(value("tables8-11", "vanilla", "optimizer intermediate"), 0);
}

/// Table 14: of C tokens of a part, logits in 4 bytes and their gradient in 2; weights, their
/// gradient and its float32 sum; input and its gradient.
TEST(Table14, IsTheSumOfWhatThereIs) {
  constexpr double d = 4096, v = 128256;
  for (const double tokens : {8192.0, 80000.0})
    for (const int parts : {1, 2, 16, 32}) {
      const std::string row = parts == 1 ? "standard" : "M=" + std::to_string(parts);
      const double bytes = 4 * v * d + 6 * tokens / parts * v + 2 * tokens * d +
                           (parts > 1 ? 4 * v * d + 2 * tokens * d : 0);
      EXPECT_NEAR(value("table14", row, std::to_string(static_cast<int>(tokens))), bytes / gib,
                  0.002)
          << row;
    }
}

/// Table 16: of C tokens of a part, gate, up, product and its gradient; of all of them the input,
/// its gradient and that of the output, which standard has in the place of the input's; weights and
/// their gradient.
TEST(Table16, IsTheSumOfWhatThereIs) {
  constexpr double d = 4096, i = 14336;
  for (const double tokens : {8192.0, 80000.0})
    for (const int parts : {1, 2, 4, 8, 16}) {
      const std::string row = parts == 1 ? "standard" : "M=" + std::to_string(parts);
      const double bytes =
          2 * (4 * tokens / parts * i + (parts == 1 ? 2 : 3) * tokens * d + 2 * 3 * i * d);
      EXPECT_NEAR(value("table16", row, std::to_string(static_cast<int>(tokens))), bytes / gib,
                  0.002)
          << row;
    }
}

TEST(Peaks, OtherSizesStandBesideNoneOfThePapers) {
  for (const Artifact* artifact : artifacts())
    for (const Cell& cell : artifact->cells(executed(*artifact, virtually(8)))) {
      if (cell.unit == "x") continue;  // ratios of the whole model
      EXPECT_FALSE(cell.paper) << cell.artifact << " " << cell.row << " " << cell.column;
    }
}

}  // namespace
}  // namespace frugal::experiments::mst2024
