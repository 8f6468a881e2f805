#pragma once
#include "harness/record/cell.h"

namespace frugal::mst2024 {

/// Gives a cell that has the paper's number and our own the reason why they differ, where it is
/// known; docs/mst2024.md has the sums.
void explain(Cell& cell);

}  // namespace frugal::mst2024
