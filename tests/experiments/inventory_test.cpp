#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "experiments/artifacts.h"
#include "experiments/paper.h"
#include "experiments/papers.h"
#include "kernels/support/embedded.h"

namespace frugal::experiments {
namespace {

std::set<std::string> ids() {
  std::set<std::string> all;
  for (const Artifact* artifact : all_artifacts()) all.insert(artifact->id());
  return all;
}

/// What is wrong with a row; else empty.
std::string wrong(const InventoryEntry& entry, const std::set<std::string>& known) {
  if (entry.where.empty() || entry.what.empty()) return "says nothing";
  if (entry.artifacts.empty() == entry.why_not.empty())
    return entry.artifacts.empty() ? "neither artifact nor reason" : "both artifact and reason";
  for (const std::string& id : entry.artifacts)
    if (!known.contains(id)) return "no artifact " + id;
  return "";
}

TEST(Inventory, EveryRowHasArtifactsThatThereAreOrAReason) {
  size_t rows = 0;
  for (const Inventory& inventory : all_papers().inventories)
    for (const InventoryEntry& entry : inventory.entries) {
      EXPECT_EQ(wrong(entry, ids()), "") << inventory.paper << " " << entry.where;
      ++rows;
    }
  EXPECT_GT(rows, 60U);
}

TEST(Inventory, RowsThatAreWrongAreFound) {
  const std::set<std::string> known{"paper/table1"};
  EXPECT_EQ(wrong({"table 1", "numbers", {"paper/table1"}, ""}, known), "");
  EXPECT_EQ(wrong({"table 1", "numbers", {"paper/table2"}, ""}, known), "no artifact paper/table2");
  EXPECT_EQ(wrong({"table 1", "numbers", {}, ""}, known), "neither artifact nor reason");
  EXPECT_EQ(wrong({"table 1", "", {"paper/table1"}, ""}, known), "says nothing");
}

/// By its tables and figures, not only by a sentence about it.
TEST(Inventory, EveryArtifactIsInARow) {
  std::set<std::string> missing = ids();
  for (const Inventory& inventory : all_papers().inventories) {
    const size_t statements = Paper(inventory.paper).statements().size();
    for (size_t i = 0; i + statements < inventory.entries.size(); ++i)
      for (const std::string& id : inventory.entries[i].artifacts) missing.erase(id);
  }
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

/// What is kept of a paper's numbers is an artifact's, or a row says why it is none's.
TEST(Inventory, EveryNumberThatIsKeptIsInARow) {
  for (const Inventory& inventory : all_papers().inventories) {
    const nlohmann::json paper = nlohmann::json::parse(
        embedded_file("experiments/" + inventory.paper + "/paper.json").value());
    std::set<std::string> named;
    for (const auto& row : paper.at("inventory")) {
      for (const std::string& name : row.value("artifacts", std::vector<std::string>{}))
        named.insert(name);
      named.insert(row.value("of", ""));
    }
    for (const auto& [name, content] : paper.at("artifacts").items())
      EXPECT_TRUE(named.contains(name)) << inventory.paper << " " << name;
  }
}

/// Otherwise a difference of nothing might pass for one.
TEST(Inventory, EveryNumberSaysWhatItWouldBeWithoutEffect) {
  for (const Artifact* artifact : all_artifacts()) {
    const std::string id = artifact->id();
    const Paper paper(id.substr(0, id.find('/')));
    const std::string name = id.substr(id.find('/') + 1);
    const std::vector<NoEffectRule> rules = paper.no_effect(name);
    for (const PaperCell& cell : paper.cells_of(name)) {
      const bool said = std::ranges::any_of(rules, [&](const NoEffectRule& rule) {
        return (rule.row.empty() || rule.row == cell.row) &&
               (rule.column.empty() || rule.column == cell.column);
      });
      EXPECT_TRUE(said || cell.unit == "x") << id << " " << cell.row << " " << cell.column;
    }
  }
}

}  // namespace
}  // namespace frugal::experiments
