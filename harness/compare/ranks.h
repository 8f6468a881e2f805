#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "harness/namespace.h"

namespace frugal::harness {

/// Ranks of values among each other, from 1. Equal values have their mean rank. Throws
/// std::invalid_argument for what is not a number.
struct Ranks {
  std::vector<int64_t> doubled;  ///< twice each value's rank, a whole number with ties too
  double ties = 0;               ///< sum of n³ − n over groups of n equal values
};
Ranks ranks_of(std::span<const double> values);

}  // namespace frugal::harness
