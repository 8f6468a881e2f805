#pragma once
#include "experiments/namespace.h"
#include "harness/record/cell.h"

namespace frugal::experiments::mst2024 {

/// Gives a cell that has the paper's number and our own the reason why they differ, where it is
/// known; docs/mst2024.md has the sums.
void explain(Cell& cell);

}  // namespace frugal::experiments::mst2024
