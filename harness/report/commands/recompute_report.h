#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/measure/runs/recompute_search.h"
#include "harness/report/table.h"

namespace frugal::harness {

/// What recomputation costs least for a memory, in words: the frontier of time and memory over all
/// ways, and beside it those of the ways that name no modules (none, selective, full).
struct RecomputeReport {
  std::vector<RecomputeWay> ways;
  int64_t memory = 0;  ///< bytes of each device
  std::string on, device, command;

  /// Of the frontier each set's fewest and most layers; and the fastest that fits, of all ways and
  /// of those without modules.
  Table table() const;
  /// "frugal.recompute/1": "frontier", "frontier_without_modules", and the fastest that fit.
  nlohmann::json json() const;
};

}  // namespace frugal::harness
