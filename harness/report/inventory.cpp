#include "harness/report/inventory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/report/verdicts.h"

namespace frugal::harness {
namespace {

constexpr const char* inventory_introduction = R"(# What of the papers there is

<!-- Written by `frugal docs`; a test compares. -->

All tables, figures and quantitative statements of each paper: the artifacts of `frugal reproduce` that have their
numbers, or why there is none. The rows are those of `experiments/PAPER/paper.json`. A test fails where an artifact is in
no row, and where a row has neither an artifact nor a reason. `frugal report` has the same table with the verdicts of
what was run; [verdicts.md](verdicts.md) says how they come about.
)";

/// "table4" of "korthikanti2022/table4".
std::string name_in_paper(const std::string& id) { return id.substr(id.find('/') + 1); }

std::string artifacts_of(const InventoryEntry& entry, const char* format) {
  std::vector<std::string> names;
  for (const std::string& id : entry.artifacts)
    names.push_back(fmt::format(fmt::runtime(format), name_in_paper(id)));
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Of the cells of some artifacts.
std::string verdicts_of(const InventoryEntry& entry, const Reproduction& reproduction) {
  Reproduction part;
  std::ranges::copy_if(reproduction.cells, std::back_inserter(part.cells), [&](const Cell& cell) {
    return std::ranges::count(entry.artifacts, cell.artifact) > 0;
  });
  if (part.cells.empty()) return "not run";
  const Tally tally = judged_cells(part);
  return tally.of.empty() ? "nothing to compare" : tally.text();
}

}  // namespace

std::string inventory_markdown(const Inventories& inventories) {
  std::string text = inventory_introduction;
  for (const Inventory& inventory : inventories) {
    Table table{{{"in the paper"}, {"what"}, {"artifacts"}, {"why not"}}, {}};
    for (const InventoryEntry& entry : inventory.entries)
      table.rows.push_back({entry.where, entry.what, artifacts_of(entry, "`{}`"), entry.why_not});
    text += fmt::format("\n## {}\n\n{}.\n\n{}", inventory.paper, inventory.title, table.markdown());
  }
  return text;
}

Table inventory_table(const Inventory& inventory, const Reproduction& reproduction) {
  Table table{{{"in the paper"}, {"what"}, {"artifacts"}, {"cells, or why not"}}, {}};
  for (const InventoryEntry& entry : inventory.entries)
    table.rows.push_back(
        {entry.where, entry.what, artifacts_of(entry, "{}"),
         entry.artifacts.empty() ? entry.why_not : verdicts_of(entry, reproduction)});
  return table;
}

}  // namespace frugal::harness
