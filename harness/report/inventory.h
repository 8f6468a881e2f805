#pragma once
#include <string>
#include <vector>

#include "harness/report/reproduction.h"

namespace frugal::harness {

/// A table, figure or statement of a paper: which artifacts reproduce it, or why none does.
struct InventoryEntry {
  std::string where;                   ///< "table 2", "abstract"
  std::string what;                    ///< its caption, or what it says
  std::vector<std::string> artifacts;  ///< their ids
  std::string why_not;                 ///< where there are none
};

/// All that a paper has.
struct Inventory {
  std::string paper, title;
  std::vector<InventoryEntry> entries;
};
using Inventories = std::vector<Inventory>;

/// What all papers have, and how far a number may be off.
struct Papers {
  Inventories inventories;
  std::string policy;  ///< what docs/verdicts.md says
};

/// What docs/inventory.md says.
std::string inventory_markdown(const Inventories& inventories);
/// The same of one paper, with how many cells of each artifact are reproduced and how many are not.
Table inventory_table(const Inventory& inventory, const Reproduction& reproduction);

}  // namespace frugal::harness
